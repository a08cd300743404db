from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from engine import Engine
from engine.model.errors import PartitionUnavailable
from engine.model.topic import TopicSettings
from engine.model.topic_name import TopicName
from engine.subscription.seeking import Seeking
from tests.api.conftest import TOPIC, Caller
from tests.engine.support import unreachable
from txnconsole.audit.models import AuditEntry

_S = f"/topics/{TOPIC}/subscriptions/s"


@pytest.fixture
def subscribed(program: Caller, topic: str) -> Caller:
    """The program, with three messages on a subscription ``s``."""
    assert program.put(_S).status == 201
    program.produce("a", "b", "c")
    return program


def _receive(caller: Caller, **body: object) -> list[Any]:
    answer = caller.post(f"{_S}/receive", {"consumer": "c1", "wait_ms": 0} | body)
    assert answer.status == 200, answer.content
    messages: list[Any] = answer.json["messages"]
    return messages


def _cursor(caller: Caller) -> Any:
    return caller.get(_S).json["partitions"][0]


def _ids(messages: list[Any]) -> list[str]:
    return [message["message_id"] for message in messages]


def test_a_subscription_is_created_and_found_again(program: Caller, topic: str) -> None:
    created = program.put(_S, {"ack_timeout_ms": 1000})
    assert (created.status, created.json["type"]) == (201, "SHARED")
    assert [each["partition"] for each in created.json["partitions"]] == [0, 1]
    assert program.put(_S, {"ack_timeout_ms": 1000}).status == 200
    assert program.get(_S).json == created.json
    (listed,) = program.get(f"/topics/{TOPIC}/subscriptions").json["items"]
    assert listed["subscription"] == "s"


@pytest.mark.parametrize(
    ("setting", "has", "wanted"),
    [
        ("type", "SHARED", "EXCLUSIVE"),
        ("initial_position", "earliest", "latest"),
        ("ack_timeout_ms", 1000, 30_000),
        ("consumer_lease_ms", 30_000, 5000),
        ("max_redeliveries", 3, 4),
        ("max_redeliveries", 3, None),
        ("dead_letter_topic", f"{TOPIC}-1", f"{TOPIC}-2"),
    ],
)
@pytest.mark.usefixtures("topic")
def test_a_setting_that_is_given_and_differs_is_409_and_named(
    setting: str, has: object, wanted: object, program: Caller, engine: Engine
) -> None:
    for number in (1, 2):
        engine.topics.create(TopicName.parse(f"{TOPIC}-{number}"), TopicSettings())
    dead = {"max_redeliveries": 3, "dead_letter_topic": f"{TOPIC}-1"}
    created = program.put(_S, {"ack_timeout_ms": 1000, **dead})
    assert created.status == 201
    letters = dead if wanted is not None and setting in dead else {}
    body = {**letters, setting: wanted}
    if wanted is None:
        body = {"max_redeliveries": None, "dead_letter_topic": None}
    answer = program.put(_S, body)
    assert answer.is_problem(409, "SubscriptionConflict")
    assert {"setting": setting, "has": has, "wanted": wanted} in answer.json["differences"]
    assert f"{setting} is {has} there, not {wanted or 'none'}" in answer.json["detail"]
    assert program.put(_S).status == 200  # Nothing that is given differs.
    assert program.get(_S).json == created.json


@pytest.mark.parametrize(
    "body",
    [{"type": "ROUND_ROBIN"}, {"initial_position": "middle"}, {"ack_timeout_ms": 0}, {"x": 1}],
)
def test_an_impossible_subscription_is_400(body: object, program: Caller, topic: str) -> None:
    assert program.put(_S, body).is_problem(400, "InvalidRequest")


def test_messages_are_delivered_once_acknowledged_and_gone(subscribed: Caller) -> None:
    messages = _receive(subscribed, max_messages=2)
    assert [message["payload"] for message in messages] == ["a", "b"]
    assert {message["redelivery_count"] for message in messages} == {0}
    assert _cursor(subscribed)["delivered"] == {"c1": [{"first": 0, "last": 1}]}
    assert [message["payload"] for message in _receive(subscribed)] == ["c"]
    assert _receive(subscribed) == []
    answer = subscribed.post(f"{_S}/ack", {"consumer": "c1", "message_ids": _ids(messages)})
    assert answer.json == {"acked": _ids(messages), "pending": [], "dropped": []}
    cursor = _cursor(subscribed)
    assert (cursor["mark_delete_offset"], cursor["backlog"]) == (1, 1)


def test_messages_given_back_come_again(subscribed: Caller) -> None:
    messages = _receive(subscribed)
    body = {"consumer": "c1", "message_ids": _ids(messages[1:])}
    assert subscribed.post(f"{_S}/nack", body).status == 204
    again = _receive(subscribed, consumer="c2")
    assert [message["payload"] for message in again] == ["b", "c"]
    assert {message["redelivery_count"] for message in again} == {1}


def test_acknowledgements_in_a_transaction_wait_for_its_end(
    subscribed: Caller, finalize: Callable[[], None]
) -> None:
    messages = _receive(subscribed)
    committed, aborted = subscribed.open(), subscribed.open()
    for txn_id, part in ((committed, messages[:1]), (aborted, messages[1:])):
        body = {"consumer": "c1", "txn_id": txn_id, "message_ids": _ids(part)}
        answer = subscribed.post(f"{_S}/ack", body)
        assert answer.json == {"acked": [], "pending": _ids(part), "dropped": []}
    pending = {ack["txn_id"]: ack["ranges"] for ack in _cursor(subscribed)["pending_acks"]}
    assert pending == {committed: [{"first": 0, "last": 0}], aborted: [{"first": 1, "last": 2}]}
    subscribed.post(f"/transactions/{committed}/commit")
    subscribed.post(f"/transactions/{aborted}/abort")
    finalize()
    assert _cursor(subscribed)["mark_delete_offset"] == 0
    assert _cursor(subscribed)["pending_acks"] == []
    assert [message["payload"] for message in _receive(subscribed)] == ["b", "c"]


def test_two_transactions_cannot_hold_one_message_and_the_answer_names_it(
    subscribed: Caller,
) -> None:
    messages = _receive(subscribed)
    holder, loser = subscribed.open(), subscribed.open()
    first = {"consumer": "c1", "txn_id": holder, "message_ids": _ids(messages[:1])}
    assert subscribed.post(f"{_S}/ack", first).status == 200
    all_of_them = {"consumer": "c1", "txn_id": loser, "message_ids": _ids(messages)}
    answer = subscribed.post(f"{_S}/ack", all_of_them)
    assert answer.is_problem(409, "TransactionConflict")
    assert answer.json["conflicts"] == [
        {
            "partition": 0,
            "offset": messages[0]["offset"],
            "message_id": messages[0]["message_id"],
            "txn_id": holder,
        }
    ]
    assert [ack["txn_id"] for ack in _cursor(subscribed)["pending_acks"]] == [holder]


@pytest.mark.parametrize(
    ("call", "body", "field"),
    [
        ("receive", {}, "consumer"),
        ("receive", {"consumer": ""}, "consumer"),
        ("receive", {"consumer": "a\0"}, "consumer"),
        ("receive", {"consumer": "c", "max_messages": 0}, "max_messages"),
        ("receive", {"consumer": "c", "wait_ms": 30_001}, "wait_ms"),
        ("ack", {"consumer": "c", "message_ids": []}, "message_ids"),
        ("ack", {"consumer": "c", "message_ids": ["1:0:0:0", "x"]}, "message_ids[1]"),
        ("ack", {"consumer": "c", "message_ids": ["1:0:0:0"], "ack_type": "ALL"}, "ack_type"),
        ("ack", {"consumer": "c", "message_ids": ["1:0:0:0"] * 10_001}, "message_ids"),
        ("nack", {"consumer": "c", "message_ids": [1]}, "message_ids[0]"),
    ],
)
def test_a_malformed_call_is_400_and_names_the_field(
    call: str, body: object, field: str, program: Caller, topic: str
) -> None:
    answer = program.post(f"{_S}/{call}", body)
    assert answer.is_problem(400, "InvalidRequest")
    assert answer.json["errors"][0]["field"] == field


def test_what_was_never_delivered_or_does_not_exist_is_told(subscribed: Caller) -> None:
    body = {"consumer": "c1", "message_ids": ["1:9:0:0"]}
    assert subscribed.post(f"{_S}/ack", body).is_problem(404, "MessageNotFound")
    body = {"consumer": "c1", "message_ids": ["1:0:7:0"]}
    assert subscribed.post(f"{_S}/ack", body).status in (400, 404)


def test_a_deleted_subscription_is_gone_and_both_changes_are_audited(
    program: Caller, as_role: Callable[..., Caller], topic: str
) -> None:
    start = AuditEntry.objects.count()
    program.put(_S)
    assert as_role("admin").delete(_S).status == 204
    assert program.get(_S).is_problem(404, "SubscriptionNotFound")
    put, deleted = AuditEntry.objects.order_by("sequence")[start:]
    assert (put.action, deleted.action) == ("subscription.put", "subscription.delete")
    assert json.loads(deleted.before) == {"mark_delete_offsets": {"0": -1, "1": -1}}


def test_subscriptions_are_listed_by_name_page_by_page(program: Caller, topic: str) -> None:
    for name in ("d", "a", "e", "b", "c"):
        assert program.put(f"/topics/{TOPIC}/subscriptions/{name}").status == 201
    path = f"/topics/{TOPIC}/subscriptions?limit=2"
    pages, cursor = [], ""
    while cursor is not None:
        page = program.get(f"{path}{cursor}").json
        pages.append([item["subscription"] for item in page["items"]])
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert page["unavailable"] == []
    assert program.get(f"{path}&cursor=WzFd").is_problem(400, "InvalidRequest")
    assert program.get(f"/topics/{TOPIC}/subscriptions?limit=501").status == 400


def test_a_broker_that_is_away_is_named_beside_what_the_others_know(
    subscribed: Caller, engine: Engine
) -> None:
    with unreachable(engine, "broker-2"):
        listed = subscribed.get(f"/topics/{TOPIC}/subscriptions").json
        partitions = subscribed.get(f"/topics/{TOPIC}/partitions").json
    assert [item["subscription"] for item in listed["items"]] == ["s"]
    assert [each["broker"] for each in listed["unavailable"]] == ["broker-2"]
    there = {item["partition"] for item in partitions["items"]}
    away = {each["partition"] for each in partitions["unavailable"]}
    assert there | away == {f"{TOPIC}:0", f"{TOPIC}:1"}
    assert len(there) == len(away) == 1
    assert partitions["unavailable"][0]["detail"]


def test_a_seek_makes_messages_come_again_or_not_at_all(subscribed: Caller) -> None:
    messages = _receive(subscribed)
    body = {"consumer": "c1", "message_ids": _ids(messages)}
    assert subscribed.post(f"{_S}/ack", body).status == 200
    assert _receive(subscribed) == []
    sought = subscribed.post(f"{_S}/seek", {"earliest": True})
    assert (sought.status, sought.json["ended_transactions"]) == (200, [])
    assert sought.json["partitions"][0]["backlog"] == len(messages)
    assert _ids(_receive(subscribed)) == _ids(messages)
    assert subscribed.post(f"{_S}/seek", {"latest": True}).status == 200
    assert _receive(subscribed) == []
    second = {"offset": messages[1]["offset"], "partition": 0}
    assert subscribed.post(f"{_S}/seek", second).status == 200
    assert _ids(_receive(subscribed)) == _ids(messages[1:])
    before_all = {"timestamp": "2020-01-01T01:00:00+01:00"}
    assert subscribed.post(f"{_S}/seek", before_all).status == 200
    entry = AuditEntry.objects.filter(action="subscription.seek").latest("sequence")
    assert '"2020-01-01T00:00:00.000000Z"' in entry.after
    stood = {"0": messages[0]["offset"], "1": -1}
    assert json.loads(entry.before) == {"mark_delete_offsets": stood}
    assert _ids(_receive(subscribed)) == _ids(messages)


@pytest.mark.parametrize(
    "body",
    [{}, {"earliest": True, "latest": True}, {"offset": 0, "timestamp": "2020-01-01T00:00Z"}],
)
def test_a_seek_says_exactly_where_to(body: object, subscribed: Caller) -> None:
    assert subscribed.post(f"{_S}/seek", body).is_problem(400, "InvalidRequest")


def test_a_seek_beyond_the_log_is_told(subscribed: Caller) -> None:
    answer = subscribed.post(f"{_S}/seek", {"offset": 999, "partition": 0})
    assert answer.is_problem(404, "MessageNotFound")
    answer = subscribed.post(f"{_S}/seek", {"offset": 0, "partition": 9})
    assert answer.is_problem(404, "PartitionNotFound")


def test_a_seek_over_pending_acks_is_refused_unless_an_operator_forces_it(
    subscribed: Caller, as_role: Callable[..., Caller]
) -> None:
    messages = _receive(subscribed)
    txn_id = subscribed.open()
    body = {"consumer": "c1", "txn_id": txn_id, "message_ids": _ids(messages[:1])}
    assert subscribed.post(f"{_S}/ack", body).status == 200
    held = subscribed.post(f"{_S}/seek", {"earliest": True})
    assert held.is_problem(409, "TopicInUse")
    assert held.json["holders"] == [txn_id]
    force = {"earliest": True, "force": True, "reason": "replay"}
    assert subscribed.post(f"{_S}/seek", force).is_problem(403, "PermissionDenied")
    operator = as_role("operator")
    forced = operator.post(f"{_S}/seek", force)
    assert (forced.status, forced.json["ended_transactions"]) == (200, [txn_id])
    assert subscribed.post(f"/transactions/{txn_id}/commit").is_problem(409, "InvalidTxnStatus")
    assert _ids(_receive(subscribed)) == _ids(messages)
    entry = AuditEntry.objects.order_by("-sequence").filter(action="subscription.seek")[0]
    assert (entry.reason, entry.result) == ("replay", "done")
    assert operator.post(f"{_S}/seek", {"earliest": True, "force": True}).status == 200


def test_a_seek_that_ends_transactions_and_then_fails_is_recorded_with_them(
    subscribed: Caller, as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = _receive(subscribed)
    txn_id = subscribed.open()
    body = {"consumer": "c1", "txn_id": txn_id, "message_ids": _ids(messages[:1])}
    assert subscribed.post(f"{_S}/ack", body).status == 200
    seek = Seeking.seek
    times = count()

    def away_at_last(self: Seeking, *arguments: Any, **options: Any) -> None:
        if next(times):
            raise PartitionUnavailable
        seek(self, *arguments, **options)

    monkeypatch.setattr(Seeking, "seek", away_at_last)
    force = {"earliest": True, "force": True, "reason": "replay"}
    answer = as_role("operator").post(f"{_S}/seek", force)
    assert answer.is_problem(503, "PartitionUnavailable")
    entry = AuditEntry.objects.filter(action="subscription.seek").latest("sequence")
    assert entry.result == "PartitionUnavailable"
    assert json.loads(entry.after) == {"ended_transactions": [txn_id]}


def test_a_held_subscription_is_deleted_by_force_alone_and_says_whose_part_that_was(
    subscribed: Caller, as_role: Callable[..., Caller]
) -> None:
    messages = _receive(subscribed)
    txn_id = subscribed.open()
    body = {"consumer": "c1", "txn_id": txn_id, "message_ids": _ids(messages[:1])}
    assert subscribed.post(f"{_S}/ack", body).status == 200
    admin = as_role("admin")
    assert admin.delete(_S).is_problem(409, "TopicInUse")
    gone = admin.delete(f"{_S}?force=true")
    assert gone.status == 200
    assert {part["txn_id"] for part in gone.json["aborted_participations"]} == {txn_id}
    assert subscribed.get(_S).is_problem(404, "SubscriptionNotFound")

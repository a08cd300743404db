from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.db import connection, connections
from pytest_django import Settings

from engine import Engine
from engine.model.message import NewMessage
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.settings import EngineSettings
from engine.subscription.arrivals import Arrivals
from tests.api.conftest import MESSAGES, TOPIC, Answer, Caller
from txnconsole.access import tokens
from txnconsole.access.models import Token
from txnconsole.api import limits, long_poll

_ENGINE = EngineSettings()


def _payloads(answer: Answer) -> list[str]:
    return [message["payload"] for message in answer.json["messages"]]


def _pack(caller: Caller, body: object, **headers: str) -> Answer:
    return caller.send(
        "POST",
        MESSAGES,
        msgspec.msgpack.encode(body),
        content_type="application/msgpack",
        **headers,
    )


def test_every_answer_tells_what_its_address_takes_and_that_its_form_is_negotiated(
    program: Caller, topic: str
) -> None:
    for answer in (program.get(MESSAGES), program.post(MESSAGES, {}), program.delete(MESSAGES)):
        assert answer.headers["Allow"] == "GET, POST, HEAD"
        assert answer.headers["Vary"] == "Accept"


def test_a_batch_is_produced_at_contiguous_offsets_and_fetched_whole(
    program: Caller, topic: str
) -> None:
    body = {
        "producer_name": "p1",
        "sequence_id": 17,
        "messages": [
            {
                "payload": "a",
                "key": "k",
                "properties": {"x": "y"},
                "event_time": "2013-01-01T05:17:00.5+01:00",
            },
            {"payload": "AP8=", "payload_encoding": "base64"},
        ],
    }
    answer = program.post(MESSAGES, body)
    assert answer.status == 201
    assert (answer.json["first_offset"], answer.json["last_offset"]) == (0, 1)
    assert answer.json["duplicate"] is False

    fetched = program.get(MESSAGES).json
    first, second = fetched["messages"]
    assert first["message_id"] == answer.json["first_message_id"]
    assert second["message_id"] == answer.json["last_message_id"]
    assert set(first) == {
        *("message_id", "offset", "partition", "kind", "txn_id", "key", "payload"),
        *("payload_encoding", "properties", "event_time", "publish_time"),
        *("producer_name", "sequence_id"),
    }
    assert (first["offset"], first["partition"], first["kind"]) == (0, 0, "DATA")
    assert (first["key"], first["properties"]) == ("k", {"x": "y"})
    assert first["event_time"] == "2013-01-01T04:17:00.500000Z"
    assert (first["producer_name"], first["sequence_id"]) == ("p1", 17)
    assert (second["payload"], second["payload_encoding"]) == ("AP8=", "base64")
    assert fetched["aborted_transactions"] == []
    assert (fetched["stable_position"], fetched["last_offset"], fetched["next_offset"]) == (1, 1, 2)


def test_the_same_sequence_again_answers_the_first_positions_and_appends_nothing(
    program: Caller, topic: str
) -> None:
    body = {"producer_name": "p", "sequence_id": 1, "messages": [{"payload": "a"}]}
    first = program.post(MESSAGES, body)
    program.produce("between")
    again = program.post(MESSAGES, body)
    assert (first.status, again.status) == (201, 200)
    assert again.json == first.json | {"duplicate": True}
    assert _payloads(program.get(MESSAGES)) == ["a", "between"]


def test_an_unknown_sequence_below_the_last_is_409(program: Caller, topic: str) -> None:
    for sequence, status in ((5, 201), (3, 409)):
        body = {"producer_name": "p", "sequence_id": sequence, "messages": [{"payload": "a"}]}
        answer = program.post(MESSAGES, body)
        assert answer.status == status
    assert answer.is_problem(409, "SequenceOutOfOrder")
    assert answer.json["last_sequence_id"] == 5
    assert "nothing was stored" in answer.json["detail"]


def test_a_producer_name_without_sequence_id_is_400(program: Caller, topic: str) -> None:
    body = {"producer_name": "p", "messages": [{"payload": "a"}]}
    assert program.post(MESSAGES, body).is_problem(400, "InvalidRequest")


def test_a_packed_payload_may_be_called_utf8_and_not_base64(program: Caller, topic: str) -> None:
    named = {"payload": b"text", "payload_encoding": "utf-8"}
    assert _pack(program, {"messages": [named]}).status == 201
    assert _payloads(program.get(MESSAGES)) == ["text"]
    answer = _pack(program, {"messages": [{**named, "payload_encoding": "base64"}]})
    assert answer.is_problem(400, "InvalidRequest")
    assert [error["field"] for error in answer.json["errors"]] == ["messages[0].payload_encoding"]


def test_messagepack_carries_bytes_both_ways(program: Caller, topic: str) -> None:
    body = {"messages": [{"payload": b"\x00\xff", "key": "k"}, {"payload": b"text"}]}
    produced = _pack(program, body, Accept="application/msgpack")
    assert produced.status == 201
    assert produced.headers["Content-Type"] == "application/msgpack"
    assert produced.msgpack["last_offset"] == 1
    fetched = program.get(MESSAGES, Accept="application/msgpack")
    assert [message["payload"] for message in fetched.msgpack["messages"]] == [b"\x00\xff", b"text"]
    assert {m["payload_encoding"] for m in fetched.msgpack["messages"]} == {"bytes"}

    def but_payloads(answer: Any) -> Any:
        for message in answer["messages"]:
            del message["payload"], message["payload_encoding"]
        return answer

    assert but_payloads(fetched.msgpack) == but_payloads(program.get(MESSAGES).json)


def test_an_error_is_a_json_problem_also_for_who_speaks_messagepack(
    program: Caller, topic: str
) -> None:
    answer = program.get(f"{MESSAGES}?from_offset=-1", Accept="application/msgpack")
    assert answer.is_problem(400, "InvalidRequest")


def test_read_committed_leaves_out_what_was_aborted_and_stops_at_what_is_open(
    program: Caller, topic: str, finalize: Callable[[], None]
) -> None:
    aborted, undecided = program.open(), program.open()
    program.produce("kept")
    program.produce("aborted", txn_id=aborted)
    program.post(f"/transactions/{aborted}/abort")
    finalize()
    program.produce("open", txn_id=undecided)
    program.produce("behind")

    committed = program.get(MESSAGES)
    assert _payloads(committed) == ["kept"]
    assert committed.json["stable_position"] == 2
    assert committed.json["next_offset"] == 3
    everything = program.get(f"{MESSAGES}?isolation=read_uncommitted")
    assert _payloads(everything) == ["kept", "aborted", "open", "behind"]
    assert everything.json["aborted_transactions"] is None
    filtering = program.get(f"{MESSAGES}?filter=client")
    assert _payloads(filtering) == ["kept", "aborted"]
    assert filtering.json["aborted_transactions"] == [{"txn_id": aborted, "first_offset": 1}]
    assert filtering.json["markers"] == [{"offset": 2, "txn_id": aborted, "kind": "TXN_ABORT"}]
    assert "markers" not in committed.json
    view = program.get(f"{MESSAGES}?view=log")
    assert view.json["aborted_transactions"] == filtering.json["aborted_transactions"]
    uncommitted = program.get(f"{MESSAGES}?view=log&isolation=read_uncommitted")
    assert uncommitted.json == view.json | {"aborted_transactions": None}
    log = view.json["messages"]
    assert [(entry["kind"], entry["visibility"]) for entry in log] == [
        ("DATA", "visible"),
        ("DATA", "aborted"),
        ("TXN_ABORT", "marker"),
        ("DATA", "open"),
        ("DATA", "blocked"),
    ]


def test_a_fetch_goes_on_where_the_last_one_ended(program: Caller, topic: str) -> None:
    program.produce(*(str(number) for number in range(5)))
    seen, offset = [], 0
    while offset < 5:
        answer = program.get(f"{MESSAGES}?from_offset={offset}&max_messages=2")
        seen += _payloads(answer)
        offset = answer.json["next_offset"]
    assert seen == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    "query",
    ["from_offset=-1", "from_offset=9223372036854775808", "max_messages=0", "max_messages=10001",
     "max_bytes=0", "max_bytes=null", "view=null", "filter=null", "cursor=null",
     "from_offset=9007199254740993.0", "max_messages=1e1", "isolation=dirty", "order=offset",
     "view=all", "filter=server", "wait_ms=-1", "wait_ms=30001", "wait_ms=soon"],
)  # fmt: skip
def test_a_fetch_above_its_limits_is_400(query: str, program: Caller, topic: str) -> None:
    assert program.get(f"{MESSAGES}?{query}").is_problem(400, "InvalidRequest")


def test_committed_order_passes_an_open_transaction_and_goes_on_inside_a_large_one(
    program: Caller, topic: str, finalize: Callable[[], None]
) -> None:
    slow, large = program.open(), program.open()
    program.produce("slow", txn_id=slow)
    program.produce("plain")
    program.produce("1", "2", "3", txn_id=large)
    program.post(f"/transactions/{large}/commit")
    finalize()
    path = f"{MESSAGES}?order=committed&max_messages=2"
    assert program.get(MESSAGES).json["messages"] == []
    first = program.get(path)
    assert _payloads(first) == ["plain"]
    assert (first.json["next_offset"], first.json["aborted_transactions"]) == (5, [])
    second = program.get(f"{path}&cursor={first.json['next_cursor']}")
    assert _payloads(second) == ["1", "2"]
    assert [each["readable_at"] for each in second.json["messages"]] == [5, 5]
    third = program.get(f"{path}&cursor={second.json['next_cursor']}")
    assert _payloads(third) == ["3"]
    program.post(f"/transactions/{slow}/commit")
    finalize()
    fourth = program.get(f"{path}&wait_ms=5000&cursor={third.json['next_cursor']}")
    assert _payloads(fourth) == ["slow"]
    fifth = program.get(f"{path}&wait_ms=20&cursor={fourth.json['next_cursor']}")
    assert (_payloads(fifth), fifth.json["next_offset"]) == ([], 7)
    assert _payloads(program.get(f"{MESSAGES}?order=committed&from_offset=2")) == [
        *("1", "2", "3"),
        "slow",
    ]


@pytest.mark.parametrize("order", ["published", "committed"])
def test_a_cursor_goes_on_until_the_log_is_truncated_below_it(
    order: str, program: Caller, as_role: Callable[..., Caller], topic: str
) -> None:
    program.produce("0", "1")
    program.produce("2")
    path = f"{MESSAGES}?order={order}&max_messages=2"
    first = program.get(path)
    second = program.get(f"{path}&cursor={first.json['next_cursor']}")
    assert (_payloads(first), _payloads(second)) == (["0", "1"], ["2"])
    partition, why = f"/topics/{TOPIC}/partitions/0", {"reason": "a test"}
    operator = as_role("operator")
    for call, body in (("offline", why), ("truncate", {"offset": 2} | why), ("online", why)):
        assert operator.post(f"{partition}/{call}", body).status == 200
    program.produce("a", "b")
    refused = program.get(f"{path}&cursor={second.json['next_cursor']}")
    assert refused.is_problem(409, "LogTruncated")
    assert refused.json["truncated_to"] == 2
    for cursor in (refused.json["next_cursor"], first.json["next_cursor"]):
        assert _payloads(program.get(f"{path}&cursor={cursor}")) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("view=log&cursor=WzEsLTEsLTFd", "cursor"),
        ("cursor=WzIsMSwtMV0", "cursor"),  # Inside a transaction, in committed order.
        ("from_offset=0&cursor=WzEsLTEsLTFd", "from_offset"),
        ("order=committed&isolation=read_uncommitted", "isolation"),
        ("order=committed&filter=client", "filter"),
        ("order=committed&view=log", "view"),
        ("filter=client&isolation=read_uncommitted", "filter"),
        ("filter=client&view=log", "filter"),
    ],
)
def test_what_contradicts_itself_is_400_and_says_which(
    query: str, field: str, program: Caller, topic: str
) -> None:
    answer = program.get(f"{MESSAGES}?{query}")
    assert answer.is_problem(400, "InvalidRequest")
    assert [error["field"] for error in answer.json["errors"]] == [field]


@pytest.mark.parametrize(
    "cursor",
    ["x", "WzEsMl0", "WzEsLTEsIngiXQ", "WzEsLTEsLTEsIngiXQ", "WzEsMiwzXQ", "Wy0xLC0xLC0xXQ"],
)
def test_a_cursor_that_no_fetch_has_given_is_400(cursor: str, program: Caller, topic: str) -> None:
    answer = program.get(f"{MESSAGES}?order=committed&cursor={cursor}")
    assert answer.is_problem(400, "InvalidRequest")


@pytest.mark.parametrize("order", ["published", "committed"])
def test_a_cursor_of_another_partition_is_400_and_not_taken_for_a_truncation(
    order: str, program: Caller, as_role: Callable[..., Caller], topic: str
) -> None:
    program.produce("a", "b")
    cursor = program.get(f"{MESSAGES}?order={order}").json["next_cursor"]
    other = f"{topic}-other"
    assert as_role("admin").put(f"/topics/{other}", {"partitions": 1}).status == 201
    refused = program.get(f"/topics/{other}/partitions/0/messages?order={order}&cursor={cursor}")
    assert refused.is_problem(400, "InvalidRequest")
    [error] = refused.json["errors"]
    assert error["field"] == "cursor"
    assert f"another partition than {other}:0" in error["message"]


@pytest.mark.parametrize("order", ["published", "committed"])
def test_a_cursor_from_before_cursors_told_their_partition_is_taken(
    order: str, program: Caller, topic: str
) -> None:
    program.produce("a", "b")
    answer = program.get(f"{MESSAGES}?order={order}&cursor=WzEsLTEsLTFd")  # [1,-1,-1]
    assert _payloads(answer) == ["b"]


@pytest.mark.parametrize("order", ["published", "committed"])
def test_a_cursor_that_a_fetch_beyond_the_end_gives_is_taken(
    order: str, program: Caller, topic: str
) -> None:
    program.produce("a", "b")
    path = f"{MESSAGES}?order={order}"
    cursor = program.get(f"{path}&from_offset=3").json["next_cursor"]
    assert program.get(f"{path}&cursor={cursor}").json["next_offset"] == 3
    program.produce("c", "d")
    assert _payloads(program.get(f"{path}&cursor={cursor}")) == ["d"]


def test_the_log_as_it_stands_is_cut_by_bytes_too(program: Caller, topic: str) -> None:
    program.produce("a" * 100)
    program.produce("b" * 100)
    answer = program.get(f"{MESSAGES}?view=log&max_bytes=1")
    assert (len(answer.json["messages"]), answer.json["next_offset"]) == (1, 1)


def test_the_engines_own_topics_can_be_read_and_not_written(program: Caller, topic: str) -> None:
    path = "/topics/public/default/__transaction_buffer_snapshot/partitions/0/messages"
    assert program.get(path).status == 200
    answer = program.post(path, {"messages": [{"payload": "x"}]})
    assert answer.is_problem(403, "PermissionDenied")


def test_a_message_a_batch_and_a_body_above_their_limits_are_413_and_name_them(
    program: Caller, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = b"x" * _ENGINE.max_message_bytes
    too_long = {"messages": [{"payload": b"x"}, {"payload": longest + b"x"}]}
    answer = _pack(program, too_long)
    assert answer.is_problem(413, "PayloadTooLarge")
    assert "messages[1]" in answer.json["detail"]
    assert answer.json["limit_bytes"] == _ENGINE.max_message_bytes
    full = [{"payload": longest}] * 3 + [{"payload": b"x" * limits.MEBIBYTE}]
    answer = _pack(program, {"messages": [*full, {"payload": b"x"}]})
    assert answer.is_problem(413, "PayloadTooLarge")
    assert answer.json["limit_bytes"] == _ENGINE.max_batch_bytes
    answer = program.send("POST", MESSAGES, b" " * (limits.PRODUCE_BODY_BYTES + 1))
    assert answer.is_problem(413, "PayloadTooLarge")
    assert answer.json["limit_bytes"] == limits.PRODUCE_BODY_BYTES
    for payload in ("x", b"x"):
        many = {"messages": [{"payload": payload}] * (limits.BATCH_MESSAGES + 1)}
        answer = _pack(program, many) if payload == b"x" else program.post(MESSAGES, many)
        assert answer.is_problem(413, "PayloadTooLarge")
        assert answer.json["limit_messages"] == limits.BATCH_MESSAGES
    assert program.get(f"/topics/{TOPIC}/partitions/0").json["last_offset"] == -1


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ("9998-12-31T11:00:00-12:00", "9998-12-31T23:00:00.000000Z"),
        ("9998-12-31T12:00:00-12:00", None),
        ("0002-01-01T12:00:00+12:00", "0002-01-01T00:00:00.000000Z"),
        ("0002-01-01T11:59:59+12:00", None),
    ],
)
def test_an_event_time_that_is_taken_is_taken_again_as_it_reads_back(
    program: Caller, topic: str, given: str, answered: str | None
) -> None:
    answer = program.post(MESSAGES, {"messages": [{"payload": "x", "event_time": given}]})
    if answered is None:
        assert answer.is_problem(400, "InvalidRequest")
        return
    again = {"messages": [{"payload": "x", "event_time": answered}]}
    assert (answer.status, program.post(MESSAGES, again).status) == (201, 201)
    for message in program.get(MESSAGES).json["messages"]:
        assert message["event_time"] == answered


def test_a_message_and_a_batch_of_just_their_limits_are_stored_packed_and_in_base64(
    program: Caller, topic: str
) -> None:
    longest = b"x" * _ENGINE.max_message_bytes
    full = [longest] * 3 + [b"x" * limits.MEBIBYTE]
    assert sum(map(len, full)) == _ENGINE.max_batch_bytes
    assert _pack(program, {"messages": [{"payload": longest, "key": "k"}]}).status == 201
    assert _pack(program, {"messages": [{"payload": each} for each in full]}).status == 201
    in_base64 = [
        {"payload": base64.b64encode(each).decode(), "payload_encoding": "base64"} for each in full
    ]
    assert program.post(MESSAGES, {"messages": in_base64}).json["last_offset"] == 8


def test_a_waiting_fetch_answers_as_soon_as_there_is_something(
    program: Caller, topic: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Answer] = []
    # The other thread does not see this test's open transaction: remember the token for it.
    monkeypatch.setattr(tokens, "CACHE_SECONDS", 3600)
    assert program.get(MESSAGES).status == 200

    def wait() -> None:
        answers.append(program.get(f"{MESSAGES}?wait_ms=20000"))
        connections.close_all()

    waiting = threading.Thread(target=wait)
    started = time.monotonic()
    waiting.start()
    engine.produce(PartitionName.parse(f"{TOPIC}:0"), [NewMessage(payload=b"late")])
    waiting.join()
    assert _payloads(answers[0]) == ["late"]
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("order", ["committed", "published"])
@pytest.mark.usefixtures("topic")
def test_a_waiting_fetch_waits_on_behind_what_holds_no_message_for_it(
    order: str,
    program: Caller,
    engine: Engine,
    finalize: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages of an open transaction, which committed order passes, and of an aborted one."""
    txn_id = program.open()
    program.produce("not for it", txn_id=txn_id)
    if order == "published":
        program.post(f"/transactions/{txn_id}/abort")
        finalize()
    partition = PartitionName.parse(f"{TOPIC}:0")
    monkeypatch.setattr(
        Arrivals,
        "in_partition",
        lambda *_, **__: engine.produce(partition, [NewMessage(payload=b"late")]),
    )
    answer = program.get(f"{MESSAGES}?order={order}&wait_ms=20000")
    assert _payloads(answer) == ["late"]


def test_a_waiting_fetch_that_has_not_come_to_the_end_answers_how_far_it_came(
    program: Caller, topic: str, finalize: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    txn_id = program.open()
    program.produce("a", txn_id=txn_id)
    program.produce("b", txn_id=txn_id)
    program.post(f"/transactions/{txn_id}/abort")
    finalize()
    waits: list[object] = []
    monkeypatch.setattr(Arrivals, "in_partition", lambda *_, **__: waits.append(None))
    answer = program.get(f"{MESSAGES}?max_messages=1&wait_ms=20000")
    assert (_payloads(answer), answer.json["next_offset"], waits) == ([], 1, [])


@pytest.mark.parametrize("call", ["fetch", "receive"])
def test_who_is_revoked_while_a_call_waits_is_given_nothing(
    call: str, program: Caller, topic: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscription = f"/topics/{TOPIC}/subscriptions/s"
    assert program.put(subscription).status == 201

    def revoked(*_: object, **__: object) -> None:
        engine.produce(PartitionName.parse(f"{TOPIC}:0"), [NewMessage(payload=b"secret")])
        for token in Token.objects.all():
            tokens.revoke(token)

    monkeypatch.setattr(Arrivals, "in_partition", revoked)
    monkeypatch.setattr(Arrivals, "in_subscription", revoked)
    if call == "fetch":
        answer = program.get(f"{MESSAGES}?wait_ms=20000")
    else:
        answer = program.post(f"{subscription}/receive", {"consumer": "c", "wait_ms": 20_000})
    assert answer.is_problem(401, "NotAuthenticated")
    name = SubscriptionName(TopicName.parse(TOPIC), "s")
    assert len(engine.receive(name, "other", max_messages=9)) == 1


def test_a_receive_that_says_nothing_waits_a_second(
    program: Caller, topic: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As design/api.md writes it, beside the other calls' defaults."""
    subscription = f"/topics/{TOPIC}/subscriptions/s"
    assert program.put(subscription).status == 201

    def came(*_: object, **__: object) -> None:
        engine.produce(PartitionName.parse(f"{TOPIC}:0"), [NewMessage(payload=b"late")])

    monkeypatch.setattr(Arrivals, "in_subscription", came)
    at_once = program.post(f"{subscription}/receive", {"consumer": "c", "wait_ms": 0})
    assert _payloads(at_once) == []
    assert _payloads(program.post(f"{subscription}/receive", {"consumer": "c"})) == ["late"]


def test_a_waiting_fetch_waits_no_longer_than_asked(program: Caller, topic: str) -> None:
    started = time.monotonic()
    assert _payloads(program.get(f"{MESSAGES}?wait_ms=60")) == []
    assert 0.05 < time.monotonic() - started < 15


def test_a_call_that_finds_no_place_to_wait_answers_at_once(
    program: Caller, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_poll, "_places", threading.BoundedSemaphore(1))
    with long_poll.place_to_wait(1000) as granted:
        assert granted == 1000
        started = time.monotonic()
        assert program.get(f"{MESSAGES}?wait_ms=20000").status == 200
        assert time.monotonic() - started < 15
    with long_poll.place_to_wait(1000) as granted:
        assert granted == 1000


@pytest.mark.django_db(transaction=True)
def test_a_call_that_waits_holds_no_connection_of_djangos() -> None:
    connection.ensure_connection()
    with long_poll.place_to_wait(1000):
        assert connection.connection is None


def test_a_sidecar_buffered_topic_is_produced_to_fetched_and_acknowledged(
    as_role: Callable[..., Caller], program: Caller, finalize: Callable[[], None]
) -> None:
    admin = as_role("admin")
    path = "/topics/public/default/aside"
    messages = f"{path}/partitions/0/messages"
    assert admin.put(path, {"buffer": "sidecar"}).json["buffer"] == "sidecar"
    assert program.put(f"{path}/subscriptions/s", {}).status == 201
    txn_id = program.post("/transactions", {}).json["txn_id"]
    program.post(messages, {"messages": [{"payload": "plain"}]})
    answer = program.post(
        messages, {"txn_id": txn_id, "messages": [{"payload": "a"}, {"payload": "b"}]}
    )
    assert (answer.status, answer.json["first_offset"]) == (201, 0)  # in the sidecar log
    assert _payloads(program.get(f"{messages}?isolation=read_uncommitted")) == ["plain"]
    status = program.get(f"{path}/partitions/0").json
    assert (status["ongoing_txns"], status["blocker"], status["stable_position"]) == (1, None, 0)
    assert program.get(f"{path}/partitions/0/blockers").json["items"] == []
    program.post(f"/transactions/{txn_id}/commit", {})
    finalize()
    fetched = program.get(messages).json["messages"]
    assert [message["offset"] for message in fetched] == [0, 1, 2]
    assert [message["message_id"].split(":", 1)[1] for message in fetched[1:]] == ["1:0:0", "1:0:1"]
    received = program.post(f"{path}/subscriptions/s/receive", {"consumer": "c"}).json["messages"]
    ids = [message["message_id"] for message in received]
    assert ids == [message["message_id"] for message in fetched]
    ack = program.post(f"{path}/subscriptions/s/ack", {"consumer": "c", "message_ids": ids})
    assert ack.json["acked"] == ids


@pytest.mark.parametrize("patterns", [[], ["public/default/*"], ["private/*"]])
def test_viewers_read_payloads_only_where_a_pattern_says_so(
    program: Caller,
    as_role: Callable[..., Caller],
    topic: str,
    settings: Settings,
    patterns: list[str],
) -> None:
    settings.VIEWER_PAYLOADS = patterns
    program.post(MESSAGES, {"messages": [{"payload": "secret", "key": "k"}]})
    viewer = as_role("viewer")
    is_open = patterns == ["public/default/*"]
    for query in ("", "?view=log", "?order=committed"):
        [message] = viewer.get(MESSAGES + query).json["messages"]
        assert message["key"] == "k"
        assert message["payload"] == ("secret" if is_open else "")
        assert message.get("payload_masked", False) is not is_open
    for role in ("consumer", "operator", "admin"):
        [message] = as_role(role).get(MESSAGES).json["messages"]
        assert message["payload"] == "secret"
        assert "payload_masked" not in message

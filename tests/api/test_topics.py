from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.log.topics import Topics
from tests.api.conftest import TOPIC, Caller
from txnconsole.audit.models import AuditEntry


@pytest.fixture
def admin(as_role: Callable[..., Caller]) -> Caller:
    return as_role("admin", user="root")


def test_a_topic_is_created_found_again_and_grown(admin: Caller) -> None:
    created = admin.put(f"/topics/{TOPIC}", {"partitions": 2})
    assert created.status == 201
    assert created.json["partitions"] == 2
    assert len(created.json["brokers"]) == 2
    assert admin.put(f"/topics/{TOPIC}", {"partitions": 2}).status == 200
    grown = admin.put(f"/topics/{TOPIC}", {"partitions": 3})
    assert (grown.status, grown.json["partitions"]) == (200, 3)
    assert admin.get(f"/topics/{TOPIC}").json == grown.json


def test_a_topics_retention_changes_when_given_and_stays_when_left_out(admin: Caller) -> None:
    path = f"/topics/{TOPIC}"

    def put(**body: object) -> tuple[int, object, object]:
        answer = admin.put(path, body)
        return answer.status, answer.json["retention_ms"], answer.json["retention_bytes"]

    assert put() == (201, None, None)
    assert put(retention_bytes=10**6) == (200, None, 10**6)
    assert put(partitions=2, retention_ms=1000) == (200, 1000, 10**6)
    assert put(partitions=2) == (200, 1000, 10**6)
    assert put(partitions=2, retention_ms=None) == (200, None, 10**6)
    assert admin.get(path).json["retention_bytes"] == 10**6


def test_a_setting_that_is_left_out_is_not_set_back_to_what_it_was_before_anothers_change(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a topic that grows would drop what somebody else has just asked to keep."""
    path = f"/topics/{TOPIC}"
    admin.put(path, {"retention_ms": 1000, "retention_bytes": 10**6})
    real = Topics.create

    def overtaken(self: Topics, *args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        assert admin.put(path, {"retention_ms": None}).status == 200
        return real(self, *args, **options)

    monkeypatch.setattr(Topics, "create", overtaken)
    grown = admin.put(path, {"partitions": 2, "retention_bytes": 10**7})
    told = [grown.json[name] for name in ("partitions", "retention_ms", "retention_bytes")]
    assert (grown.status, told) == (200, [2, None, 10**7])


def test_what_is_left_out_of_a_topic_that_stands_stays_as_it_is(admin: Caller) -> None:
    path = f"/topics/{TOPIC}"
    settings = {"buffer": "sidecar", "segment_max_messages": 7, "segment_max_bytes": 10**6}
    made = admin.put(path, {"partitions": 2, "deduplication": False} | settings)
    assert made.status == 201
    again = admin.put(path)
    assert (again.status, again.json) == (200, made.json)
    grown = admin.put(path, {"partitions": 3})
    assert grown.status == 200
    assert grown.json == made.json | {"partitions": 3, "brokers": grown.json["brokers"]}


@pytest.mark.parametrize(
    ("setting", "has", "wanted", "told"),
    [
        ("partitions", 2, 1, "partitions is 2 there, not 1"),
        ("deduplication", True, False, "deduplication is true there, not false"),
        ("buffer", "marker", "sidecar", "buffer is marker there, not sidecar"),
        ("segment_max_messages", 7, 8, "segment_max_messages is 7 there, not 8"),
    ],
)
def test_what_would_change_a_topics_data_is_409_and_names_it(
    setting: str, has: object, wanted: object, told: str, admin: Caller
) -> None:
    settings = {"partitions": 2, "segment_max_messages": 7}
    admin.put(f"/topics/{TOPIC}", settings)
    answer = admin.put(f"/topics/{TOPIC}", settings | {setting: wanted})
    assert answer.is_problem(409, "TopicConflict")
    assert answer.json["differences"] == [{"setting": setting, "has": has, "wanted": wanted}]
    assert told in answer.json["detail"]


@pytest.mark.parametrize(
    "body",
    [{"partitions": 0}, {"partitions": 1025}, {"buffer": "none"}, {"x": 1},
     {"retention_ms": -1}, {"segment_max_bytes": 0}],
)  # fmt: skip
def test_impossible_settings_are_400(body: object, admin: Caller) -> None:
    assert admin.put(f"/topics/{TOPIC}", body).is_problem(400, "InvalidRequest")
    assert admin.get(f"/topics/{TOPIC}").status == 404


def test_topics_are_listed_by_name_and_those_of_the_engine_on_demand(admin: Caller) -> None:
    names = [f"public/default/{name}" for name in "cab"]
    for name in names:
        admin.put(f"/topics/{name}")
    page = admin.get("/topics?limit=2").json
    rest = admin.get(f"/topics?limit=2&cursor={page['next_cursor']}").json
    listed = [item["topic"] for item in page["items"] + rest["items"]]
    assert listed == sorted(names)
    assert rest["next_cursor"] is None
    everything = admin.get("/topics?include_system=true").json["items"]
    assert any(item["topic"].split("/")[-1].startswith("__") for item in everything)


def test_a_deleted_topic_is_gone(admin: Caller) -> None:
    admin.put(f"/topics/{TOPIC}")
    assert admin.delete(f"/topics/{TOPIC}").status == 204
    assert admin.get(f"/topics/{TOPIC}").is_problem(404, "TopicNotFound")
    assert admin.delete(f"/topics/{TOPIC}").is_problem(404, "TopicNotFound")


def test_a_topic_that_a_transaction_holds_is_not_deleted(admin: Caller) -> None:
    admin.put(f"/topics/{TOPIC}")
    txn_id = admin.open()
    admin.produce("x", txn_id=txn_id)
    assert admin.delete(f"/topics/{TOPIC}").is_problem(409, "TopicInUse")
    assert admin.get(f"/topics/{TOPIC}").status == 200


def test_a_topic_deleted_by_force_says_what_it_aborted(
    admin: Caller, finalize: Callable[[], None]
) -> None:
    admin.put(f"/topics/{TOPIC}")
    txn_id = admin.open()
    admin.produce("x", txn_id=txn_id)
    answer = admin.delete(f"/topics/{TOPIC}?force=true")
    parts = [{"txn_id": txn_id, "participant": f"{TOPIC}:0"}]
    assert (answer.status, answer.json) == (
        200,
        {"topic": TOPIC, "aborted_participations": parts},
    )
    assert admin.get(f"/topics/{TOPIC}").status == 404
    entry = AuditEntry.objects.order_by("-sequence").first()
    assert entry is not None
    assert (entry.action, entry.result) == ("topic.delete", "done")
    assert json.loads(entry.after) == {
        "force": True,
        "aborted_participations": [f"{txn_id} {TOPIC}:0"],
    }
    assert admin.post(f"/transactions/{txn_id}/commit").json["status"] == "COMMITTING"
    finalize()
    transaction = admin.get(f"/transactions/{txn_id}").json
    [part] = transaction["partitions"]
    assert (transaction["status"], part["state"]) == ("COMMITTED", "aborted")
    assert "force" in part["last_error"]


def _make_anew(admin: Caller) -> None:
    admin.delete(f"/topics/{TOPIC}?force=true")
    admin.put(f"/topics/{TOPIC}")
    admin.put(f"/topics/{TOPIC}/subscriptions/s")


def test_a_topic_made_anew_has_its_own_parts_of_a_transaction_after_those_of_the_deleted_one(
    admin: Caller, finalize: Callable[[], None]
) -> None:
    producing, acknowledging = admin.open(), admin.open()
    for _ in range(2):
        _make_anew(admin)
        message_ids = [admin.produce("plain")["first_message_id"]]
        body = {"consumer": "c", "txn_id": acknowledging, "message_ids": message_ids}
        assert admin.post(f"/topics/{TOPIC}/subscriptions/s/ack", body).status == 200
        admin.produce("x", txn_id=producing)
    for txn_id in (producing, acknowledging):
        admin.post(f"/transactions/{txn_id}/commit")
    finalize()
    old, new = admin.get(f"/transactions/{producing}").json["partitions"]
    assert (old["state"], new["state"], new["messages"]) == ("aborted", "committed", 1)
    old, new = admin.get(f"/transactions/{acknowledging}").json["subscriptions"]
    assert (old["subscription"], new["subscription"]) == ("s", "s")
    assert (old["state"], "force" in old["last_error"]) == ("aborted", True)
    assert (new["state"], new["acked_messages"], new["last_error"]) == ("committed", 1, None)


def test_every_change_of_a_topic_is_audited(admin: Caller) -> None:
    start = AuditEntry.objects.count()
    admin.put(f"/topics/{TOPIC}")
    admin.put(f"/topics/{TOPIC}", {"deduplication": False})
    admin.delete(f"/topics/{TOPIC}")
    entries = AuditEntry.objects.order_by("sequence")[start:]
    assert [(entry.who, entry.action, entry.object, entry.result) for entry in entries] == [
        ("root", "topic.put", f"topic:{TOPIC}", "done"),
        ("root", "topic.put", f"topic:{TOPIC}", "TopicConflict"),
        ("root", "topic.delete", f"topic:{TOPIC}", "done"),
    ]


def test_the_audit_log_tells_what_a_topic_was_before_each_change(admin: Caller) -> None:
    start = AuditEntry.objects.count()
    admin.put(f"/topics/{TOPIC}", {"retention_ms": 1000})
    admin.put(f"/topics/{TOPIC}", {"partitions": 2, "retention_ms": None})
    admin.put(f"/topics/{TOPIC}", {"partitions": 1})
    admin.delete(f"/topics/{TOPIC}")
    entries = AuditEntry.objects.order_by("sequence")[start:]
    before = [json.loads(entry.before) for entry in entries]
    assert [(each.get("partitions"), each.get("retention_ms")) for each in before] == [
        (None, None),
        (1, 1000),
        (2, None),
        (2, None),
    ]
    assert before[0] == {}

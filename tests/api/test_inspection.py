"""What operators ask, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine import Engine
from engine.model.message import NewMessage
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from tests.api.conftest import MESSAGES, TOPIC, Caller
from tests.engine.support import lose_derived_state
from txnconsole.audit.models import AuditEntry

_PARTITION = f"/topics/{TOPIC}/partitions/0"
_ORPHAN = TxnID(3, 77)


@pytest.fixture
def operator(as_role: Callable[..., Caller]) -> Caller:
    return as_role("operator")


def test_an_orphan_is_listed_with_the_call_that_mends_it(
    operator: Caller, program: Caller, engine: Engine, topic: str
) -> None:
    program.produce("a")
    partition = PartitionName(TopicName.parse(topic), 0)
    engine.log.append(partition, [NewMessage(payload=b"x")], txn_id=_ORPHAN)
    page = operator.get("/hanging-transactions").json
    [found] = page["items"]
    assert (page["next_cursor"], page["unavailable"]) == (None, {})
    assert (found["txn_id"], found["kind"], found["partition"]) == ("3:77", "ORPHAN", f"{TOPIC}:0")
    assert (found["first_offset"], found["hidden_messages"], found["status"]) == (1, 1, None)
    call: dict[str, Any] = found["remedy"]["call"]
    path = call["path"].removeprefix("/api/v1")
    assert operator.post(path, call["body"] | {"reason": "why"}).status == 200
    assert operator.get("/hanging-transactions").json["items"] == []


def test_a_stuck_transaction_is_re_driven_and_that_is_audited(
    operator: Caller, program: Caller, finalize: Callable[[], None], topic: str
) -> None:
    txn_id = program.open()
    program.produce("a", txn_id=txn_id)
    refused = operator.post(f"/transactions/{txn_id}/retry", {})
    assert refused.is_problem(409, "InvalidTxnStatus")
    program.post(f"/transactions/{txn_id}/commit")
    retried = operator.post(f"/transactions/{txn_id}/retry", {"reason": "why"}).json
    assert retried["replayed"] == [f"{TOPIC}:0"]
    finalize()
    assert program.get(f"/transactions/{txn_id}").json["status"] == "COMMITTED"
    entries = AuditEntry.objects.filter(action="transaction.retry").order_by("sequence")
    assert [(entry.before, entry.result) for entry in entries] == [
        ('{"status":"OPEN"}', "InvalidTxnStatus"),
        ('{"status":"COMMITTING"}', "done"),
    ]


def test_participants_say_what_they_know(
    program: Caller, finalize: Callable[[], None], topic: str
) -> None:
    txn_id = program.open()
    program.produce("a", "b", txn_id=txn_id)
    [part] = program.get(f"/transactions/{txn_id}/participants").json["participants"]
    assert (part["says"], part["recorded"], part["messages"]) == ("OPEN", "pending", 2)
    program.post(f"/transactions/{txn_id}/commit")
    finalize()
    answer = program.get(f"/transactions/{txn_id}/participants").json
    [part] = answer["participants"]
    assert (answer["agreed"], part["says"], part["marker_offset"]) == (True, "COMMITTED", 2)
    assert (part["discords"], answer["unavailable"]) == ([], {})


def test_history_answers_a_moment_an_offset_and_a_range(program: Caller, topic: str) -> None:
    program.produce("a")
    txn_id = program.open()
    program.produce("b", txn_id=txn_id)
    program.produce("c")
    [point] = program.get(f"{_PARTITION}/history?offset=2").json["points"]
    assert (point["stable_position"], point["last_stable_offset"]) == (0, 1)
    assert (point["holder"], point["exact"]) == (txn_id, True)
    assert program.get(f"{_PARTITION}/history?at=2").json["points"] == [point]
    assert program.get(f"{_PARTITION}/history?at=2.0").is_problem(400, "InvalidRequest")
    past = program.get(f"{_PARTITION}/history?at=2020-01-01T00:00:00Z").json["points"]
    assert [(each["last_offset"], each["holder"]) for each in past] == [(-1, None)]
    points = program.get(f"{_PARTITION}/history").json["points"]
    assert [each["last_offset"] for each in points] == [-1, 2]
    assert program.get(f"{_PARTITION}/history?offset=9").is_problem(404, "MessageNotFound")
    both = program.get(f"{_PARTITION}/history?offset=1&at=2020-01-01T00:00:00Z")
    assert both.is_problem(400, "InvalidRequest")


def test_history_tells_moments_of_any_zone_in_utc(program: Caller, topic: str) -> None:
    [point] = program.get(f"{_PARTITION}/history?at=2020-01-01T12:00:00%2B02:00").json["points"]
    assert point["at"] == "2020-01-01T10:00:00.000000Z"
    path = f"{_PARTITION}/history?from=2020-01-01T12:00:00%2B02:00&to=2020-01-01T13:00:00-09:30"
    span = program.get(path).json
    ends = (span["since"], span["until"])
    assert ends == ("2020-01-01T10:00:00.000000Z", "2020-01-01T22:30:00.000000Z")
    assert ends == (span["points"][0]["at"], span["points"][-1]["at"])


def test_a_message_is_explained(program: Caller, topic: str) -> None:
    txn_id = program.open()
    program.produce("a", txn_id=txn_id)
    program.produce("b")
    program.put(f"/topics/{TOPIC}/subscriptions/s")
    answer = program.get(f"{_PARTITION}/explain?offset=1&subscription=s").json
    assert (answer["readable"], answer["deliverable"]) == (False, False)
    assert [reason["code"] for reason in answer["reasons"]] == ["BLOCKED", "UNREAD"]
    assert answer["reasons"][0]["evidence"]["txn_id"] == txn_id
    query = "offset=0&isolation=read_uncommitted"
    assert program.get(f"{_PARTITION}/explain?{query}").json["readable"] is True
    unknown = program.get(f"{_PARTITION}/explain?offset=0&subscription=nobody")
    assert unknown.is_problem(404, "SubscriptionNotFound")


def test_a_rehearsal_and_the_invariants_are_shown(
    operator: Caller, program: Caller, engine: Engine, topic: str
) -> None:
    program.produce("a", txn_id=program.open())
    program.produce("b")
    rehearsal = operator.get(f"{_PARTITION}/rehearsal").json
    assert (rehearsal["snapshot_position"], rehearsal["entries"], rehearsal["exact"]) == (
        0,
        1,
        True,
    )
    lose_derived_state(engine)
    program.get(MESSAGES)
    estimated = operator.get(f"{_PARTITION}/rehearsal").json["estimated_ms"]
    assert isinstance(estimated, int)
    assert estimated > 0
    report = operator.get(f"{_PARTITION}/invariants").json
    assert report["next_position"] is None
    assert {check["holds"] for check in report["checks"]} == {True}
    assert operator.get("/invariants").json["checks"] == 0
    engine.inspect.check_invariants()
    known = operator.get("/invariants?limit=500").json
    assert known["broken"] == 0
    assert known["checks"] == len(known["items"]) > 10
    assert operator.get("/invariants?broken=true").json["items"] == []

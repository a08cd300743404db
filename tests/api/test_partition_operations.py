"""Operator calls on partitions, over the API."""

from __future__ import annotations

import json
from collections.abc import Callable

import psycopg
import pytest

from engine import Engine
from engine.buffer import recovery
from engine.log.brokers import Location
from engine.model.message import NewMessage
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from tests.api.conftest import MESSAGES, TOPIC, Caller
from tests.engine.support import lose_derived_state
from txnconsole.audit.models import AuditEntry

_PARTITION = f"/topics/{TOPIC}/partitions/0"
_WHY = {"reason": "disk is failing"}


@pytest.fixture
def operator(as_role: Callable[..., Caller]) -> Caller:
    return as_role("operator", user="olga")


def newest() -> AuditEntry:
    entry = AuditEntry.objects.order_by("-sequence").first()
    assert entry is not None
    return entry


def test_a_partition_goes_offline_and_online_with_a_reason_that_is_shown(
    program: Caller, operator: Caller, topic: str
) -> None:
    program.produce("a")
    answer = operator.post(f"{_PARTITION}/offline", _WHY)
    assert (answer.status, answer.json["state"]) == (200, "offline")
    assert answer.json["offline_reason"] == "disk is failing"
    entry = newest()
    assert (entry.who, entry.action, entry.object, entry.reason) == (
        "olga",
        "partition.offline",
        f"partition:{TOPIC}:0",
        "disk is failing",
    )
    refused = program.get(MESSAGES)
    assert refused.is_problem(503, "PartitionUnavailable")
    assert "Retry-After" in refused.headers
    unstored = program.post(MESSAGES, {"messages": [{"payload": "b"}]})
    assert unstored.is_problem(503, "PartitionUnavailable")
    assert (refused.json["state"], unstored.json["state"]) == ("offline", "offline")
    assert json.loads(entry.before) == {"state": "online", "last_offset": 0, "stable_position": 0}
    online = operator.post(f"{_PARTITION}/online", _WHY)
    assert json.loads(newest().before)["state"] == "offline"
    assert online.json == {"partition": f"{TOPIC}:0", "ended_transactions": []}
    assert len(program.get(MESSAGES).json["messages"]) == 1


def test_a_partition_that_is_damaged_goes_offline_and_those_beside_it_are_served(
    program: Caller, operator: Caller, engine: Engine, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    """What it answered with came from its state, which had to be rebuilt first: it was a 500."""
    program.produce("a")
    engine.topics.create(TopicName.parse(TOPIC), TopicSettings(partitions=3))
    lose_derived_state(engine)
    rebuild = recovery._rebuild

    def unreadable(location: Location, partition: PartitionName) -> None:
        if partition.number == 0:
            raise psycopg.errors.DataCorrupted("invalid page in block 7")
        rebuild(location, partition)

    monkeypatch.setattr(recovery, "_rebuild", unreadable)
    refused = program.get(MESSAGES)
    assert refused.is_problem(503, "PartitionUnavailable")
    assert "DataCorrupted" in refused.json["detail"]
    answer = operator.post(f"{_PARTITION}/offline", _WHY)
    assert answer.is_problem(503, "PartitionUnavailable")
    assert (newest().result, json.loads(newest().after)) == ("done", {"state": "offline"})
    statuses, failures = engine.log.statuses(TopicName.parse(TOPIC), range(9))
    assert [status.partition.number for status in statuses] == [1, 2]
    assert [name.number for name in failures] == [0]
    monkeypatch.undo()
    assert operator.post(f"{_PARTITION}/online", _WHY).status == 200
    assert len(program.get(MESSAGES).json["messages"]) == 1


def test_truncation_tells_what_it_did_and_the_outcome_comes_back_online(
    program: Caller, operator: Caller, topic: str, finalize: Callable[[], None]
) -> None:
    txn_id = program.open()
    program.produce("a", txn_id=txn_id)
    program.post(f"/transactions/{txn_id}/commit")
    finalize()
    program.produce("b")
    body = {"offset": 1} | _WHY
    refused = operator.post(f"{_PARTITION}/truncate", body)
    assert refused.is_problem(409, "InvalidPartitionState")
    assert refused.json["current_state"] == "online"
    assert (newest().action, newest().result) == ("partition.truncate", "InvalidPartitionState")
    operator.post(f"{_PARTITION}/offline", _WHY)
    answer = operator.post(f"{_PARTITION}/truncate", body)
    assert answer.json == {
        "partition": f"{TOPIC}:0",
        "next_offset": 1,
        "dropped_entries": 2,
        "reopened_transactions": [txn_id],
    }
    assert json.loads(newest().before) == {
        "state": "offline",
        "last_offset": 2,
        "stable_position": 2,
    }
    online = operator.post(f"{_PARTITION}/online", _WHY)
    assert online.json["ended_transactions"] == [txn_id]
    messages = program.get(MESSAGES).json["messages"]
    assert [message["payload"] for message in messages] == ["a"]


def test_snapshot_and_recovery_on_demand(program: Caller, operator: Caller, topic: str) -> None:
    program.produce("a", txn_id=program.open())
    program.produce("b")
    assert operator.post(f"{_PARTITION}/snapshot").status == 200
    assert program.get(_PARTITION).json["snapshot"]["position"] == 1
    answer = operator.post(f"{_PARTITION}/recover", _WHY)
    assert (answer.json["state"], answer.json["ongoing_txns"]) == ("online", 1)
    assert newest().before == newest().after


def test_an_orphan_is_aborted_where_abort_finds_nothing(
    program: Caller, operator: Caller, topic: str, engine: Engine
) -> None:
    orphan = TxnID(0, 4711)
    partition = PartitionName(TopicName.parse(TOPIC), 0)
    engine.log.append(partition, [NewMessage(payload=b"x")], txn_id=orphan)
    abort = operator.post(f"/transactions/{orphan}/abort", _WHY)
    assert abort.is_problem(404, "TransactionNotFound")
    body = {"txn_id": str(orphan)} | _WHY
    answer = operator.post(f"{_PARTITION}/force-abort", body)
    assert answer.json == {"partition": f"{TOPIC}:0", "txn_id": str(orphan), "marker_offset": 1}
    assert operator.post(f"{_PARTITION}/force-abort", body).is_problem(404, "TransactionNotFound")
    assert program.get(_PARTITION).json["stable_position"] == 1


def test_an_open_transaction_is_not_an_orphan(
    program: Caller, operator: Caller, topic: str
) -> None:
    txn_id = program.open()
    program.produce("a", txn_id=txn_id)
    refused = operator.post(f"{_PARTITION}/force-abort", {"txn_id": txn_id} | _WHY)
    assert refused.is_problem(409, "InvalidTxnStatus")
    assert refused.json["current_status"] == "OPEN"
    assert newest().result == "InvalidTxnStatus"


@pytest.mark.parametrize("call", ["offline", "online", "snapshot", "recover"])
def test_what_loses_nothing_is_done_without_a_reason(
    call: str, operator: Caller, topic: str
) -> None:
    assert operator.send("POST", f"{_PARTITION}/{call}").status == 200
    assert (newest().action, newest().reason) == (f"partition.{call}", "")


@pytest.mark.parametrize(
    ("call", "body"), [("truncate", {"offset": 0}), ("force-abort", {"txn_id": "0:1"})]
)
@pytest.mark.parametrize("reason", [None, "", "  "])
def test_a_reason_is_required_for_what_is_lost(
    call: str, body: dict[str, object], reason: str | None, operator: Caller, topic: str
) -> None:
    answer = operator.post(
        f"{_PARTITION}/{call}", body if reason is None else body | {"reason": reason}
    )
    assert answer.is_problem(400, "InvalidRequest")
    assert answer.json["errors"]


def test_a_fetch_from_below_the_start_goes_on_at_the_start(program: Caller, engine: Engine) -> None:
    settings = TopicSettings(retention_bytes=1, segment_max_messages=1)
    engine.topics.create(TopicName.parse(TOPIC), settings)
    program.produce("a")
    program.produce("b")
    program.produce("c")
    engine.apply_retention()
    start = program.get(_PARTITION).json["log_start_offset"]
    assert start > 0
    answer = program.get(f"{MESSAGES}?from_offset=0").json
    assert answer["log_start_offset"] == start
    assert [message["offset"] for message in answer["messages"]] == list(range(start, 3))

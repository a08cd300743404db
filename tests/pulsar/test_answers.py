"""What a tool written for Pulsar reads, field by field (reference: peers §4.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine import Engine
from engine.coordinator import listing
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from tests.api.conftest import TOPIC, Caller
from tests.console.questions import Questions
from tests.engine.support import archive, finalize, sql, unreachable
from tests.pulsar.conftest import PulsarTool, bits
from txnconsole.pulsar import transactions as pulsar_transactions
from txnconsole.pulsar.names import txn_text

_P0 = f"{TOPIC}-partition-0"


@pytest.fixture
def open_txn(program: Caller, topic: str) -> str:
    """An open transaction of ``program`` with two messages behind a plain one."""
    txn_id = program.open(coordinator_id=2, timeout_ms=90_000)
    program.produce("plain")
    program.produce("a", "b", txn_id=txn_id)
    return txn_id


def test_coordinators_are_listed_with_their_address(tool: PulsarTool) -> None:
    found = tool.get("coordinators")
    assert [each["id"] for each in found] == [0, 1, 2, 3]
    assert found[0]["brokerServiceUrl"].startswith("http")


def test_coordinator_stats_are_of_one_or_of_all(tool: PulsarTool, open_txn: str) -> None:
    one = tool.get("coordinatorStats?coordinatorId=2")
    assert one | {"recoverStartTime": 0, "recoverEndTime": 0} == {
        "state": "Ready",
        "leastSigBits": 0,
        "lowWaterMark": -1,
        "ongoingTxnSize": 1,
        "recoverStartTime": 0,
        "recoverEndTime": 0,
    }
    assert tool.get("coordinatorStats")["2"] == one
    assert "no coordinator 9" in tool.get("coordinatorStats?coordinatorId=9", 404)["reason"]


def test_the_number_of_coordinators_grows_by_a_bare_number(tool: PulsarTool) -> None:
    tool.post("transactionCoordinator/replicas", b"6")
    assert [each["id"] for each in tool.get("coordinators")] == [0, 1, 2, 3, 4, 5]
    for not_greater in (b"6", b"3", b"0", b"-1"):
        refused = tool.post("transactionCoordinator/replicas", not_greater, 406)
        assert refused["code"] == "NotAcceptable"
        assert "6 coordinators" in refused["reason"]
    for wrong in (b"65537", b'"8"', b"", b"{}", b"7.5", b"null"):
        assert tool.post("transactionCoordinator/replicas", wrong, 400)["code"] == "InvalidRequest"
    assert len(tool.get("coordinators")) == 6
    newest = tool.caller.get("/audit?action=coordinator.scale").json["items"]
    done = newest[-1]
    assert (done["before"], done["after"]) == ({"count": 4}, {"count": 6})
    assert {each["result"] for each in newest[:-1]} == {"InvalidRequest"}


def test_internal_stats_name_the_log_and_its_end(
    tool: PulsarTool, open_txn: str, engine: Engine
) -> None:
    more = tool.get("coordinatorInternalStats/2?metadata=true")["transactionLogStats"]
    assert more == tool.get("coordinatorInternalStats/2")["transactionLogStats"]
    assert more["managedLedgerName"].endswith("__transaction_log_2")
    newest = int(more["managedLedgerInternalStats"]["lastConfirmedEntry"].split(":")[1])
    assert newest > 0
    empty = tool.get("coordinatorInternalStats/3?metadata=true")["transactionLogStats"]
    assert empty["managedLedgerInternalStats"]["lastConfirmedEntry"] == "3:-1"


def test_internal_stats_outlive_the_log_of_what_has_been_archived(
    tool: PulsarTool, program: Caller, engine: Engine
) -> None:
    program.post(f"/transactions/{program.open(coordinator_id=2)}/abort")
    finalize(engine)
    assert archive(engine) == 1
    found = tool.get("coordinatorInternalStats/2")["transactionLogStats"]
    assert found["managedLedgerInternalStats"]["lastConfirmedEntry"] == "2:-1"


def test_metadata_shows_participants_and_the_timeout_as_a_duration(
    tool: PulsarTool, program: Caller, open_txn: str
) -> None:
    ledger = _ledger(program)
    found = tool.get(f"transactionMetadata/{bits(open_txn)}")
    assert found["txnId"] == "(562949953421312,0)"
    assert (found["status"], found["owner"], found["timeoutAt"]) == ("OPEN", "program", 90_000)
    assert found["openTimestamp"] > 1_700_000_000_000
    assert found["producedPartitions"] == {
        f"persistent://{_P0}": {"startPosition": f"{ledger}:1", "aborted": False}
    }
    assert found["ackedPartitions"] == {}


def test_an_id_may_be_written_as_pulsar_itself_does(
    tool: PulsarTool, program: Caller, open_txn: str
) -> None:
    """Its upper half is the coordinator's id alone, beside which `coordinatorStats` counts."""
    sequence = tool.get("coordinatorStats?coordinatorId=2")["leastSigBits"]
    found = tool.get(f"transactionMetadata/2/{sequence}")
    assert found == tool.get(f"transactionMetadata/{bits(open_txn)}")
    assert tool.post(f"abortTransaction/2/{sequence}") is None
    assert program.get(f"/transactions/{open_txn}").json["status"] == "ABORTING"


def test_metadata_of_an_aborted_transaction_says_so_per_partition(
    tool: PulsarTool, open_txn: str, finalize: Callable[[], None]
) -> None:
    assert tool.post(f"abortTransaction/{bits(open_txn)}") is None
    finalize()
    found = tool.get(f"transactionMetadata/{bits(open_txn)}")
    assert found["status"] == "ABORTED"
    assert found["producedPartitions"][f"persistent://{_P0}"] == {
        "startPosition": None,
        "aborted": True,
    }
    in_buffer = tool.get(f"transactionInBufferStats/{_P0}/{bits(open_txn)}")
    assert in_buffer == {"startPosition": None, "aborted": True}


@pytest.mark.parametrize("aborted", [True, False])
def test_buffer_stats_of_what_has_been_archived_tell_whether_it_was_aborted(
    engine: Engine, tool: PulsarTool, program: Caller, open_txn: str, aborted: bool
) -> None:
    program.post(f"/transactions/{open_txn}/{'abort' if aborted else 'commit'}")
    finalize(engine)
    assert archive(engine) == 1
    in_buffer = tool.get(f"transactionInBufferStats/{_P0}/{bits(open_txn)}")
    assert in_buffer == {"startPosition": None, "aborted": aborted}


def test_an_ongoing_transaction_has_a_start_position_in_its_buffer(
    tool: PulsarTool, program: Caller, open_txn: str
) -> None:
    ledger = _ledger(program)
    found = tool.get(f"transactionInBufferStats/{_P0}/{bits(open_txn)}")
    assert found == {"startPosition": f"{ledger}:1", "aborted": False}


def test_in_a_sidecar_an_ongoing_transaction_starts_where_its_metadata_says(
    tool: PulsarTool, program: Caller, engine: Engine
) -> None:
    """Its messages wait in a log of their own: no position in the partition's is one of theirs."""
    settings = TopicSettings(partitions=1, buffer=BufferKind.SIDECAR)
    engine.topics.create(TopicName.parse(TOPIC), settings)
    program.produce("plain")
    txn_id = program.open()
    program.produce("a", "b", txn_id=txn_id)
    produced = tool.get(f"transactionMetadata/{bits(txn_id)}")["producedPartitions"]
    ledger, entry = produced[f"persistent://{_P0}"]["startPosition"].split(":")
    assert (int(ledger) != _ledger(program), entry) == (True, "0")
    assert tool.get(f"transactionInBufferStats/{_P0}/{bits(txn_id)}") == {
        "startPosition": f"{ledger}:0",
        "aborted": False,
    }


def test_buffer_stats_stand_still_at_the_first_open_transaction(
    tool: PulsarTool, program: Caller, open_txn: str
) -> None:
    ledger = _ledger(program)
    program.produce("behind")
    found = tool.get(f"transactionBufferStats/{_P0}")
    assert (found["state"], found["maxReadPosition"]) == ("Ready", f"{ledger}:0")
    assert (found["ongoingTxnSize"], found["totalAbortedTransactions"]) == (1, 0)
    assert found["lastSnapshotTimestamps"] > 1_700_000_000_000
    assert (found["lowWaterMarks"], found["segmentsStats"]) == (None, None)


def test_buffer_stats_tell_low_water_marks_and_aborts_when_asked(
    tool: PulsarTool, open_txn: str, finalize: Callable[[], None]
) -> None:
    tool.post(f"abortTransaction/{bits(open_txn)}")
    finalize()
    found = tool.get(f"transactionBufferStats/{_P0}?lowWaterMarks=true&segmentStats=true")
    assert "2" not in found["lowWaterMarks"] or found["lowWaterMarks"]["2"] >= -1
    assert found["totalAbortedTransactions"] == 1
    (segment,) = found["segmentsStats"]["segmentStats"]
    assert segment["lastTxnID"] == "(562949953421312,0)"


def test_a_partition_that_is_offline_tells_how_it_stands(
    tool: PulsarTool, program: Caller, open_txn: str
) -> None:
    """No message is read for it: that it is away is when somebody looks."""
    subscription = f"/topics/{TOPIC}/subscriptions/s"
    assert program.put(subscription, {"type": "EXCLUSIVE"}).status == 201
    [plain] = program.post(f"{subscription}/receive", {"consumer": "c"}).json["messages"]
    ack = _ack(plain["message_id"]) | {"txn_id": open_txn, "ack_type": "CUMULATIVE"}
    assert program.post(f"{subscription}/ack", ack).status == 200
    ledger = _ledger(program)
    offline = tool.caller.post(f"/topics/{TOPIC}/partitions/0/offline", {"reason": "x"})
    assert offline.status == 200
    stats = tool.get(f"transactionBufferStats/{_P0}")
    assert (stats["state"], stats["maxReadPosition"]) == ("Close", f"{ledger}:0")
    held = tool.get(f"transactionInPendingAckStats/{_P0}/s/{bits(open_txn)}")
    assert held == {"cumulativeAckPosition": f"{ledger}:0"}
    for position, state in ((f"{ledger}/0", "PendingAck"), (f"{ledger}/1", "NotInPendingAck")):
        assert tool.get(f"positionStatsInPendingAck/{_P0}/s/{position}") == {"state": state}


def test_an_empty_partition_has_nothing_to_read(tool: PulsarTool, topic: str) -> None:
    found = tool.get(f"transactionBufferStats/{TOPIC}-partition-1")
    assert (found["maxReadPosition"], found["lastSnapshotTimestamps"]) == ("-1:-1", 0)


def test_a_topic_of_one_partition_needs_no_number(tool: PulsarTool, engine: Engine) -> None:
    engine.topics.create(TopicName.parse("public/default/one"), TopicSettings(partitions=1))
    assert tool.get("transactionBufferStats/public/default/one")["ongoingTxnSize"] == 0


def test_a_topic_of_several_partitions_needs_one(tool: PulsarTool, topic: str) -> None:
    answer = tool.get(f"transactionBufferStats/{TOPIC}", 400)
    assert answer["code"] == "InvalidRequest"
    assert "flights-partition-0" in answer["reason"]


def test_slow_means_old_whatever_the_timeout(tool: PulsarTool, program: Caller, topic: str) -> None:
    """Pulsar compares the configured timeout with the limit."""
    young = program.open(timeout_ms=3_600_000)
    for age_ms in (60_000, 2**63 - 1, 10**20):
        assert tool.get(f"slowTransactions/{age_ms}") == {}
    listed = tool.get("slowTransactions/0")
    assert [each["timeoutAt"] for each in listed.values()] == [3_600_000]
    tc_id = int(young.split(":")[0])
    assert tool.get(f"slowTransactions/0?coordinatorId={(tc_id + 1) % 4}") == {}


def test_slow_ones_are_found_behind_very_many_of_another_coordinator(
    tool: PulsarTool, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulsar's call knows no pages, and a page looks at a bounded number of transactions."""
    monkeypatch.setattr(listing, "_SCAN_LIMIT", 2)
    *_, last = (engine.coordinator.open(owner="o", tc_id=tc_id).txn_id for tc_id in (0, 0, 0, 1))
    assert list(tool.get("slowTransactions/0?coordinatorId=1")) == [txn_text(last)]
    monkeypatch.setattr(pulsar_transactions, "MOST_SLOW", 2)
    assert len(tool.get("slowTransactions/0")) == 2


def test_pending_acks_are_found_by_position(
    tool: PulsarTool, program: Caller, open_txn: str, finalize: Callable[[], None]
) -> None:
    subscription = f"/topics/{TOPIC}/subscriptions/s"
    assert program.put(subscription).status == 201
    program.post(f"/transactions/{open_txn}/commit")
    finalize()
    received = program.post(f"{subscription}/receive", {"consumer": "c"}).json["messages"]
    first, second, _third = (message["message_id"] for message in received)
    txn_id = program.open()
    assert program.post(f"{subscription}/ack", _ack(first)).status == 200
    assert program.post(f"{subscription}/ack", _ack(second) | {"txn_id": txn_id}).status == 200
    ledger = _ledger(program)
    states = {
        position: tool.get(f"positionStatsInPendingAck/{_P0}/s/{position}")["state"]
        for position in (
            f"{ledger}/0",
            f"{ledger}/1",
            f"{ledger}/1?batchIndex=1",
            f"{ledger}/1?batchIndex=2",
            f"{ledger}/2",
            f"{ledger}/7",
            f"{ledger + 1}/0",
        )
    }
    assert states == {
        f"{ledger}/0": "MarkDelete",
        f"{ledger}/1": "PendingAck",
        f"{ledger}/1?batchIndex=1": "NotInPendingAck",
        f"{ledger}/1?batchIndex=2": "InvalidPosition",
        f"{ledger}/2": "InvalidPosition",
        f"{ledger}/7": "InvalidPosition",
        f"{ledger + 1}/0": "InvalidPosition",
    }
    stats = tool.get(f"pendingAckStats/{_P0}/s?lowWaterMarks=true")
    assert (stats["state"], stats["ongoingTxnSize"]) == ("Ready", 1)
    assert stats["lowWaterMarks"] == {}
    held = tool.get(f"transactionInPendingAckStats/{_P0}/s/{bits(txn_id)}")
    assert held == {"cumulativeAckPosition": None}
    metadata = tool.get(f"transactionMetadata/{bits(txn_id)}")
    assert metadata["ackedPartitions"] == {
        f"persistent://{_P0}": {"s": {"cumulativeAckPosition": None}}
    }


def test_each_partition_where_acknowledgements_are_held_is_named_with_its_position(
    tool: PulsarTool, program: Caller, topic: str
) -> None:
    """Two partitions, on two brokers. What the answer calls one is what the other calls take."""
    subscription = f"/topics/{TOPIC}/subscriptions/s"
    assert program.put(subscription, {"type": "EXCLUSIVE"}).status == 201
    txn_id = program.open()
    for number in (0, 1):
        batch = {"messages": [{"payload": "x"}]}
        assert program.post(f"/topics/{TOPIC}/partitions/{number}/messages", batch).status == 201
        [message] = program.post(f"{subscription}/receive", {"consumer": "c"}).json["messages"]
        ack = _ack(message["message_id"]) | {"txn_id": txn_id, "ack_type": "CUMULATIVE"}
        assert program.post(f"{subscription}/ack", ack).status == 200
    acked = tool.get(f"transactionMetadata/{bits(txn_id)}")["ackedPartitions"]
    assert set(acked) == {f"persistent://{TOPIC}-partition-{number}" for number in (0, 1)}
    for partition, held in acked.items():
        path = partition.removeprefix("persistent://")
        assert held == {"s": tool.get(f"transactionInPendingAckStats/{path}/s/{bits(txn_id)}")}
        assert held["s"]["cumulativeAckPosition"].endswith(":0")


def test_many_unfinished_acknowledgements_are_told_by_as_many_questions_as_one(
    tool: PulsarTool, program: Caller, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each broker is asked two things, however many transactions hold acknowledgements there."""
    subscription = f"/topics/{TOPIC}/subscriptions/s"
    assert program.put(subscription, {"type": "EXCLUSIVE"}).status == 201
    program.produce(*(str(number) for number in range(8)))
    received = program.post(f"{subscription}/receive", {"consumer": "c"}).json["messages"]

    questions = Questions(monkeypatch)

    def asked() -> tuple[int, dict[str, Any]]:
        before = len(questions.asked)
        found = tool.get("slowTransactions/0")
        return len(questions.asked) - before, found

    def hold(message: Any, ack_type: str) -> str:
        txn_id = program.open()
        body = _ack(message["message_id"]) | {"txn_id": txn_id, "ack_type": ack_type}
        assert program.post(f"{subscription}/ack", body).status == 200
        program.produce("x", txn_id=txn_id)
        return txn_id

    first = hold(received[0], "CUMULATIVE")
    asked()  # What is remembered from now on is not asked again.
    once, found = asked()
    held = found[txn_text(TxnID.parse(first))]
    ledger = _ledger(program)
    assert held["ackedPartitions"] == {
        f"persistent://{_P0}": {"s": {"cumulativeAckPosition": f"{ledger}:0"}}
    }
    assert held["producedPartitions"][f"persistent://{_P0}"]["startPosition"] == f"{ledger}:8"
    assert "unavailable" not in held
    for message in received[1:]:
        hold(message, "INDIVIDUAL")
    often, found = asked()
    assert len(found) == len(received)
    assert often == once


def test_a_broker_that_is_away_is_named_and_fails_no_slow_transaction(
    tool: PulsarTool, program: Caller, open_txn: str, engine: Engine
) -> None:
    broker = engine.log.locate(PartitionName.parse(f"{TOPIC}:0")).database.name
    with unreachable(engine, broker):
        for found in (
            tool.get("slowTransactions/0")[txn_text(TxnID.parse(open_txn))],
            tool.get(f"transactionMetadata/{bits(open_txn)}"),
        ):
            assert found["status"] == "OPEN"
            assert found["unavailable"] == [broker]
            assert found["producedPartitions"][f"persistent://{_P0}"]["startPosition"] is None


def test_the_internal_stats_of_a_buffer_lead_to_its_snapshots(
    tool: PulsarTool, program: Caller, open_txn: str
) -> None:
    found = tool.get(f"transactionBufferInternalStats/{_P0}")
    assert found["snapshotType"] == "Single"
    assert (found["segmentInternalStats"], found["segmentIndexInternalStats"]) == (None, None)
    log = found["singleSnapshotSystemTopicInternalStats"]
    assert log["managedLedgerName"].startswith("public/default/persistent/__")
    stats = log["managedLedgerInternalStats"]
    assert stats["state"] == "LedgerOpened"
    assert stats["numberOfEntries"] == sum(each["entries"] for each in stats["ledgers"]) > 0
    assert stats["lastConfirmedEntry"].startswith(f"{stats['ledgers'][-1]['ledgerId']}:")


def test_ledgers_come_in_the_order_of_the_log_and_the_last_one_is_the_current(
    tool: PulsarTool, program: Caller, open_txn: str, engine: Engine
) -> None:
    partition = PartitionName(TopicName.parse(TOPIC), 0)
    database = engine.log.locate(partition).database
    for _ in range(2):
        engine.partitions.snapshot(partition)
        sql(
            database,
            "SELECT broker.seal_segment(l.partition_id, l.ledger_id) FROM broker.partition_live l"
            " JOIN broker.partition p USING (partition_id) WHERE p.topic LIKE '%%/\\_\\_%%'",
        )
    engine.partitions.snapshot(partition)
    found = tool.get(f"transactionBufferInternalStats/{_P0}")
    stats = found["singleSnapshotSystemTopicInternalStats"]["managedLedgerInternalStats"]
    ids = [each["ledgerId"] for each in stats["ledgers"]]
    assert len(ids) == 3
    assert ids == sorted(ids)
    assert stats["lastConfirmedEntry"].startswith(f"{ids[-1]}:")
    current = stats["ledgers"][-1]
    assert stats["currentLedgerEntries"] == current["entries"] == 1
    assert stats["currentLedgerSize"] == current["size"] > 0


def test_the_internal_stats_of_pending_acks_name_the_last_record_of_their_log(
    tool: PulsarTool, program: Caller, topic: str
) -> None:
    subscription = f"/topics/{TOPIC}/subscriptions/s"
    assert program.put(subscription).status == 201
    path = f"pendingAckInternalStats/{_P0}/s"
    log = tool.get(path)["pendingAckLogStats"]
    assert log["managedLedgerName"].endswith("flights-partition-0-s__transaction_pending_ack")
    assert log["managedLedgerInternalStats"]["lastConfirmedEntry"] == "-1:-1"
    program.produce("x")
    [message] = program.post(f"{subscription}/receive", {"consumer": "c"}).json["messages"]
    ack = _ack(message["message_id"]) | {"txn_id": program.open()}
    assert program.post(f"{subscription}/ack", ack).status == 200
    newest = tool.get(path)["pendingAckLogStats"]["managedLedgerInternalStats"]
    assert int(newest["lastConfirmedEntry"].split(":")[1]) > 0


def test_a_recovery_that_was_needed_has_its_times(
    tool: PulsarTool, program: Caller, open_txn: str
) -> None:
    found = tool.get(f"transactionBufferStats/{_P0}")
    assert (found["recoverStartTime"], found["recoverEndTime"]) == (0, 0)
    assert tool.caller.post(f"/topics/{TOPIC}/partitions/0/recover", {"reason": "x"}).status == 200
    found = tool.get(f"transactionBufferStats/{_P0}")
    assert 1_700_000_000_000 < found["recoverStartTime"] <= found["recoverEndTime"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("transactionMetadata/0/99", 404, "TransactionNotFound"),
        (f"transactionMetadata/{77 << 48}/1", 404, "CoordinatorNotFound"),
        ("slowTransactions/0?coordinatorId=77", 404, "CoordinatorNotFound"),
        (f"transactionMetadata/{2**64}/0", 400, "InvalidRequest"),
        (f"transactionMetadata/{2**48 * 70_000}/0", 400, "InvalidRequest"),
        ("transactionBufferStats/public/default/none", 404, "TopicNotFound"),
        ("transactionBufferStats/a%20b/default/none", 400, "InvalidRequest"),
        ("coordinatorStats?coordinatorId=x", 400, "InvalidRequest"),
        ("coordinatorStats?coordinatorId=1.0", 400, "InvalidRequest"),
    ],
)
def test_errors_carry_a_reason(tool: PulsarTool, path: str, status: int, code: str) -> None:
    answer = tool.get(path, status)
    assert answer["code"] == code
    assert answer["reason"] == answer["detail"]


def test_a_partition_that_is_not_there_is_named(
    tool: PulsarTool, program: Caller, topic: str
) -> None:
    assert program.put(f"/topics/{topic}/subscriptions/s").status == 201
    answer = tool.get(f"pendingAckStats/{topic}-partition-99/s", 404)
    assert answer["code"] == "PartitionNotFound"


def test_a_transaction_outlives_the_subscription_that_it_acknowledged_on(
    tool: PulsarTool,
    program: Caller,
    topic: str,
    engine: Engine,
    finalize: Callable[[], None],
) -> None:
    path = f"/topics/{topic}/subscriptions/s"
    assert program.put(path).status == 201
    program.produce("x")
    [message] = program.post(f"{path}/receive", {"consumer": "c"}).json["messages"]
    txn_id = program.open()
    ack = _ack(message["message_id"]) | {"txn_id": txn_id}
    assert program.post(f"{path}/ack", ack).status == 200
    assert program.post(f"/transactions/{txn_id}/commit", {}).status == 200
    finalize()
    engine.subscriptions.delete(SubscriptionName(TopicName.parse(topic), "s"))
    metadata = tool.get(f"transactionMetadata/{bits(txn_id)}")
    assert metadata["ackedPartitions"] == {
        f"persistent://{topic}": {"s": {"cumulativeAckPosition": None}}
    }


def _ack(message_id: str) -> dict[str, object]:
    return {"consumer": "c", "message_ids": [message_id]}


def _ledger(program: Caller) -> int:
    path = f"/topics/{TOPIC}/partitions/0/messages?view=log&max_messages=1"
    return int(program.get(path).json["messages"][0]["message_id"].split(":")[0])

"""Everything that can be seen of an engine, compared with what the reference says."""

from __future__ import annotations

from typing import Any

from engine import Engine
from engine.model.message import Isolation, StoredMessage, Visibility
from engine.model.partition import Fetched, PartitionState
from engine.model.subscription import CursorStatus
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome, TxnAction
from tests.engine.support import indexed_txns
from tests.model.coordinators import Txn
from tests.model.partitions import Fetched as ModelFetched
from tests.model.partitions import MarkerPartition
from tests.model.reference import Reference, Topic
from tests.model.sidecars import SidecarPartition
from tests.model.subscriptions import Cursor

_ALL = 1000
_UNSEEN = (Visibility.MARKER, Visibility.ABORTED)


def same(real: object, expected: object, what: object) -> None:
    assert real == expected, f"{what}: the engine says {real!r}, the model {expected!r}"


def producer(name: str | None) -> str | None:
    """A producer's name; of dead letters' without what tells a subscription from an earlier one."""
    return name.rpartition("/")[0] if name and name.startswith("dead-letters/") else name


def compare_logs(engine: Engine, reference: Reference) -> None:
    """Positions and every entry of every partition."""
    for topic in reference.topics.values():
        for number, partition in enumerate(topic.partitions):
            name = PartitionName(topic.name, number)
            reference.headless.discard(name)
            _compare_status(engine, name, partition)
            if partition.online:
                _compare_entries(engine, name, partition)


def compare_subscriptions(engine: Engine, reference: Reference) -> None:
    """What is deleted, held and in flight, message by message."""
    for topic in reference.topics.values():
        for name, subscription in topic.subscriptions.items():
            status = engine.subscriptions.describe(SubscriptionName(topic.name, name))
            same(
                [cursor.partition for cursor in status.partitions],
                [*range(len(topic.partitions))],
                f"partitions of {name}",
            )
            for real in status.partitions:
                _compare_cursor(real, subscription.cursors[real.partition], name)


def compare_reads(engine: Engine, reference: Reference) -> None:
    """Fetches of whole partitions in every mode, the index and what is ongoing."""
    for topic in reference.topics.values():
        for number, partition in enumerate(topic.partitions):
            name = PartitionName(topic.name, number)
            if not topic.sidecar:
                _compare_index(engine, name, partition)
            if partition.online:
                for mode in ({}, {"keep_aborted": True}, {"committed": False}):
                    compare_fetch(engine, name, partition, 0, _ALL, **mode)


def compare_coordinators(engine: Engine, reference: Reference) -> None:
    """Headers, participants, transaction logs, outcomes and low water marks."""
    for txn_id, txn in reference.coordinators.txns.items():
        _compare_txn(engine, txn_id, txn)
        same(engine.coordinator.outcome(txn_id), reference.coordinators.outcome(txn_id), txn_id)
    for stats in engine.coordinator.stats():
        mark = reference.coordinators.low_water_mark(stats.tc_id)
        same(stats.low_water_mark, mark, f"low water mark of {stats.tc_id}")
        issued = reference.coordinators.issued[stats.tc_id]
        same(stats.sequence, issued - 1, f"sequence of {stats.tc_id}")


def compare_fetch(
    engine: Engine,
    name: PartitionName,
    partition: MarkerPartition,
    from_offset: int,
    size: int,
    *,
    committed: bool = True,
    keep_aborted: bool = False,
) -> None:
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    real = engine.log.fetch(name, from_offset, size, isolation=isolation, keep_aborted=keep_aborted)
    expected = partition.fetch(from_offset, size, committed=committed, keep_aborted=keep_aborted)
    same(_fetched(real), expected, f"fetch of {name} from {from_offset} ({isolation})")


def _fetched(real: Fetched) -> ModelFetched:
    aborted = real.aborted_transactions
    return ModelFetched(
        messages=[(message.offset, message.payload.decode()) for message in real.messages],
        aborted=None if aborted is None else [(row.txn_id, row.first_offset) for row in aborted],
        stable=real.stable_position,
        last=real.last_offset,
        next=real.next_offset,
        start=real.log_start_offset,
    )


def _compare_status(engine: Engine, name: PartitionName, partition: MarkerPartition) -> None:
    real = engine.log.status(name)
    ongoing = partition.ongoing()
    sidecar = isinstance(partition, SidecarPartition)
    blocker = None if sidecar else next(iter(ongoing.items()), None)
    same(
        {
            "online": real.state is PartitionState.ONLINE,
            "start": real.log_start_offset,
            "last": real.last_offset,
            "stable": real.stable_position,
            "ongoing": real.ongoing_txns,
            "aborted": None if sidecar else real.aborted_txns,
            "marks": dict(real.low_water_marks),
            "blocker": real.blocker
            and (
                real.blocker.txn_id,
                real.blocker.first_offset,
                real.blocker.last_offset,
                real.blocker.messages,
            ),
        },
        {
            "online": partition.online,
            "start": partition.start,
            "last": partition.end - 1,
            "stable": partition.stable,
            "ongoing": len(ongoing),
            "aborted": None
            if sidecar
            else sum(row.action is TxnAction.ABORT for row in partition.index),
            "marks": {tc_id: mark for tc_id, mark in partition.marks.items() if mark >= 0},
            "blocker": blocker and (blocker[0], blocker[1][0], blocker[1][-1], len(blocker[1])),
        },
        f"status of {name}",
    )
    segments = [segment.first_offset for segment in reversed(engine.log.segments(name))]
    same(segments, [segment.first for segment in partition.segments], f"segments of {name}")


def _compare_entries(engine: Engine, name: PartitionName, partition: MarkerPartition) -> None:
    real = engine.log.browse(name, 0, _ALL)
    same(
        [_cell(message) for message in real.messages],
        [
            (
                offset,
                message.kind,
                message.txn_id,
                message.text,
                producer(message.producer),
                message.sequence_id,
                partition.visibility(offset),
            )
            for offset, message in sorted(partition.log.items())
        ],
        f"log of {name}",
    )
    begins = {one.ledger_id: one.first_offset for one in engine.log.segments(name)}
    ledgers = [begins[message.message_id.ledger_id] for message in real.messages]
    expected = [
        max(segment.first for segment in partition.segments if segment.first <= offset)
        for offset in sorted(partition.log)
    ]
    same(ledgers, expected, f"ledgers of {name}")


def _cell(message: StoredMessage) -> tuple[object, ...]:
    return (
        message.offset,
        message.kind,
        message.txn_id,
        message.payload.decode(),
        producer(message.producer_name),
        message.sequence_id,
        message.visibility,
    )


def _compare_index(engine: Engine, name: PartitionName, partition: MarkerPartition) -> None:
    outcomes = {TxnAction.COMMIT: Outcome.COMMITTED, TxnAction.ABORT: Outcome.ABORTED}
    same(
        [
            (row.txn_id, row.outcome, row.first_offset, row.last_offset, row.last_stable_offset)
            for row in indexed_txns(engine, name, 0, _ALL)
        ],
        [
            (row.txn_id, outcomes[row.action], row.first, row.last, row.lso)
            for row in partition.index
        ],
        f"index of {name}",
    )
    same(
        [
            (row.txn_id, row.first_offset, row.last_offset, row.messages)
            for row in engine.log.ongoing(name, limit=None)
        ],
        [
            (txn_id, offsets[0], offsets[-1], len(offsets))
            for txn_id, offsets in partition.ongoing().items()
        ],
        f"ongoing of {name}",
    )


def _compare_cursor(real: CursorStatus, cursor: Cursor, name: str) -> None:
    what = f"{name} in partition {real.partition}"
    log = cursor.partition.log
    deleted = {o for o in log if o <= real.mark_delete_offset or o in real.acked}
    expected = cursor.deleted & log.keys()
    same(expected - deleted, set(), f"{what}, acknowledged and not deleted")
    # Markers and aborted messages go when a reader passes them; nothing else does.
    passed = {o for o in log if cursor.partition.visibility(o) in _UNSEEN}
    extra = sorted(deleted - expected - passed - cursor.partition.reopened)
    same(extra, [], f"{what}, deleted and never acknowledged")
    assert real.mark_delete_offset + 1 not in real.acked, what
    held: dict[TxnID, set[int]] = {}
    for ack in real.pending_acks:
        # A cumulative claim holds markers and aborted messages too, which nobody is given.
        seen = {o for o in ack.ranges if cursor.partition.visibility(o) not in _UNSEEN}
        if seen:
            held.setdefault(ack.txn_id, set()).update(seen)
    same(
        held,
        _grouped(cursor.held),
        f"{what}, held",
    )
    same(
        {consumer: {*ranges} for consumer, ranges in real.delivered.items()},
        _grouped({o: who for o, who in cursor.in_flight.items() if o not in cursor.overdue}),
        f"{what}, in flight",
    )
    same(real.backlog, len(cursor.undeleted()), f"{what}, backlog")
    partition = cursor.partition
    blocked = partition.end - 1 - max(partition.stable, real.mark_delete_offset)
    same(real.blocked, max(0, blocked), f"{what}, blocked")


def _grouped(by_offset: dict[int, Any]) -> dict[Any, set[int]]:
    found: dict[Any, set[int]] = {}
    for offset, holder in by_offset.items():
        found.setdefault(holder, set()).add(offset)
    return found


def _compare_txn(engine: Engine, txn_id: TxnID, txn: Txn) -> None:
    real = engine.coordinator.get(txn_id)
    same(
        (real.status, real.owner, real.end_reason),
        (txn.status, txn.owner, txn.end_reason),
        f"header of {txn_id}",
    )
    same(
        sorted((str(part.partition), part.state.value) for part in real.partitions),
        sorted((_partition_of(part), state) for part, state in txn.partitions.items()),
        f"partitions of {txn_id}",
    )
    same(
        sorted((part.broker, part.state.value) for part in real.subscriptions),
        sorted((str(part[1]), state) for part, state in txn.subscriptions.items()),
        f"subscriptions of {txn_id}",
    )
    same(
        [
            (entry.metadata_op, entry.expected_status, entry.new_status)
            for entry in engine.coordinator.log(txn_id)
        ],
        [entry[:3] for entry in txn.log],
        f"transaction log of {txn_id}",
    )


def _partition_of(part: tuple[Any, Any]) -> str:
    topic: Topic = part[0]
    return str(PartitionName(topic.name, part[1]))

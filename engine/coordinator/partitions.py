"""Operators' commands on partitions (design/api.md): take offline, bring online, truncate,
snapshot, recover, and force an orphan's abort.

Lock order: the partition's record, then its head.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import structlog

from engine.buffer.ending import end_orphans
from engine.buffer.recovery import recover, sidecar_log
from engine.buffer.snapshots import Snapshots
from engine.coordinator.coordinator import Coordinator
from engine.log.brokers import Location
from engine.log.partition_log import PartitionLogs
from engine.log.rows import txn_of
from engine.model.errors import (
    EngineError,
    InvalidPartitionState,
    InvalidRequest,
    InvalidTxnStatus,
    PartitionNotFound,
    TopicInUse,
    TransactionNotFound,
)
from engine.model.partition import PartitionState, SnapshotInfo, Truncated
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome, TxnAction, TxnStatus, outcome_of
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)

#: Entries cut in one SQL transaction.
_CUT = 20_000
#: Transactions named in a refusal.
_NAMED = 5
_ACTIONS = {Outcome.COMMITTED: TxnAction.COMMIT, Outcome.ABORTED: TxnAction.ABORT}


class PartitionOperations:
    """Operators' commands on single partitions. All of them refuse partitions of system topics
    (InvalidRequest), and partitions whose broker cannot be reached or that, to be taken offline
    aside, cannot be rebuilt (PartitionUnavailable)."""

    def __init__(self, log: PartitionLogs, coordinator: Coordinator, snapshots: Snapshots) -> None:
        self._log = log
        self._coordinator = coordinator
        self._snapshots = snapshots

    def take_offline(self, partition: PartitionName, *, reason: str) -> None:
        """Stop serving a partition, once the calls under way have ended. On a partition that is
        offline already this changes the reason. Ends of transactions wait until it is online.

        Raises:
            PartitionNotFound: there is no such partition.
        """
        location = self._locate(partition)

        def work(session: Session) -> None:
            _hold(session, location, partition)
            key = {"partition_id": location.partition_id}
            session.run("set_online", **key, online=False, reason=reason)

        location.database.retrying(work)
        logger.warning("partition taken offline", partition=str(partition))

    def bring_online(self, partition: PartitionName) -> tuple[TxnID, ...]:
        """Serve a partition again. Decided transactions that are open in it are ended first, so
        that a transaction that truncation has re-opened gets its own outcome back.

        Returns:
            The transactions that have been ended.

        Raises:
            PartitionNotFound: there is no such partition.
            CoordinatorUnavailable: the outcomes are not known; the partition stays offline.
        """
        location = self._locate(partition)
        ended = None
        while ended is None:
            ended = self._try_online(location, partition)
        logger.info("partition brought online", partition=str(partition), ended=len(ended))
        return tuple(txn_of(row) for row in ended)

    def truncate(self, partition: PartitionName, offset: int) -> Truncated:
        """Cut the end of the log, so that nothing at or above ``offset`` is left. Only whole
        batches are cut, so a batch that reaches over ``offset`` goes as a whole.

        The stable position and cursors move back. A transaction whose marker was cut is open again
        until the partition is brought online. A sidecar-buffered partition cannot be cut below its
        last commit. After a crash in the middle the log ends somewhere above ``offset``; repeating
        the call completes it.

        Raises:
            InvalidRequest: below the log's start, or below the last commit.
            InvalidPartitionState: the partition is online.
            TopicInUse: an open transaction has messages or acknowledgements there.
            PartitionNotFound: there is no such partition.
        """
        location = self._locate(partition)
        recover(location, partition)
        before = self._open_in(partition)
        entries, next_offset = self._cut_until(location, partition, offset)
        recover(location, partition)
        reopened = self._open_in(partition) - before
        logger.warning(
            "partition truncated",
            partition=str(partition),
            next_offset=next_offset,
            entries=entries,
            reopened=len(reopened),
        )
        return Truncated(next_offset=next_offset, entries=entries, reopened=tuple(sorted(reopened)))

    def snapshot(self, partition: PartitionName) -> SnapshotInfo | None:
        """Take a snapshot of a partition's buffer now, and of its sidecar log; answers the newest
        snapshot, None when the partition has none and none could be taken."""
        location = self._locate(partition)
        recover(location, partition)
        self._snapshots.take(location, partition)
        log = sidecar_log(location)
        if log is not None:
            self._snapshots.take(log, partition.sidecar())
        return self._log.status(partition).snapshot

    def recover(self, partition: PartitionName) -> None:
        """Discard the derived state and rebuild it from snapshot and log (semantics §5)."""
        location = self._locate(partition)

        def work(session: Session) -> None:
            _hold(session, location, partition)
            session.run("drop_head", partition_id=location.partition_id)

        location.database.retrying(work)
        recover(location, partition)

    def force_abort(self, partition: PartitionName, txn_id: TxnID) -> int:
        """Abort an orphan: open in the partition, and unknown to its coordinator or ABORTED.

        Returns:
            The offset of the abort marker.

        Raises:
            TransactionNotFound: nothing of it is open in the partition.
            InvalidTxnStatus: its coordinator says that it is OPEN (end it there), or committed. A
                decision is never reversed, so in the second case the commit has been carried out
                here (``replayed``).
            InvalidPartitionState: the partition is offline.
        """
        location = self._locate(partition)
        if self._log.span(partition, txn_id) is None:
            raise TransactionNotFound(f"{txn_id} has nothing open in {partition}.")
        outcome = self._outcome(txn_id)
        if outcome is Outcome.UNDECIDED:
            raise InvalidTxnStatus(
                f"{txn_id} is OPEN; abort it with its coordinator.",
                current_status=TxnStatus.OPEN.value,
            )
        action = TxnAction.ABORT if outcome is None else _ACTIONS[outcome]

        def work(session: Session) -> list[Row]:
            if not _hold(session, location, partition).record.online:
                raise InvalidPartitionState(
                    f"{partition} is offline.", current_state=PartitionState.OFFLINE.value
                )
            return end_orphans(session, location.partition_id, {txn_id: action})

        ended = location.database.retrying(work)
        if action is TxnAction.COMMIT:
            raise InvalidTxnStatus(
                f"{txn_id} is committed; the commit has been carried out in {partition}.",
                current_status=TxnStatus.COMMITTED.value,
                replayed=True,
            )
        if not ended:
            raise TransactionNotFound(f"{txn_id} has ended in {partition} meanwhile.")
        logger.warning("orphan aborted", partition=str(partition), txn_id=str(txn_id))
        return int(ended[0].marker_offset)

    def _try_online(self, location: Location, partition: PartitionName) -> list[Row] | None:
        """Bring a partition online with the decisions that are known now. None: a truncation that
        went on beside it may have opened other transactions again, and nothing was changed. It may
        also have left the partition without a head."""
        recover(location, partition)
        ledger_id = _ledger(location)
        actions = self._decisions(txn.txn_id for txn in self._log.ongoing(partition, limit=None))

        def work(session: Session) -> list[Row] | None:
            head = _hold(session, location, partition).head
            # Whatever is cut, the log goes on in a new ledger.
            if head is None or head.ledger_id != ledger_id:
                return None
            key = {"partition_id": location.partition_id}
            session.run("set_online", **key, online=True, reason=None)
            return end_orphans(session, location.partition_id, actions)

        return location.database.retrying(work)

    def _cut_until(
        self, location: Location, partition: PartitionName, offset: int
    ) -> tuple[int, int]:
        """Cut in steps; answers how many entries were cut, and where the log ends now. ``end``
        tells a step where the one before stopped, so that the partition need not be rebuilt in
        between."""
        entries, end = 0, None
        decided: Sequence[str] = ()
        while True:
            row = _cut(location, offset, decided=decided, end=end)
            if row.result == "held":
                undecided = self._undecided(row.holders)
                if undecided:
                    raise _in_use(undecided)
                decided = row.holders  # They may be cut.
            elif row.result == "truncated":
                entries, end = entries + row.entries, int(row.next_offset)
                if row.finished:
                    return entries, end
            elif row.result == "recovering":
                recover(location, partition)
            else:
                raise _refusal(row, partition)

    def _locate(self, partition: PartitionName) -> Location:
        if partition.topic.is_system:
            raise InvalidRequest(f"{partition} is the engine's own.", field="topic")
        return self._log.locate(partition, fresh=True)

    def _open_in(self, partition: PartitionName) -> set[TxnID]:
        return {txn.txn_id for txn in self._log.ongoing(partition, limit=None)}

    def _undecided(self, holders: Iterable[str]) -> list[TxnID]:
        txn_ids = {TxnID.parse(holder) for holder in holders}
        return sorted(txn_ids - self._decisions(txn_ids).keys())

    def _outcome(self, txn_id: TxnID) -> Outcome | None:
        """The outcome at its coordinator; None when the id was never issued."""
        try:
            return self._coordinator.outcome(txn_id)
        except TransactionNotFound:
            return None

    def _decisions(self, txn_ids: Iterable[TxnID]) -> dict[TxnID, TxnAction]:
        """The action that was decided for each transaction; open and unknown ones are left out."""
        return {
            txn_id: _ACTIONS[outcome]
            for txn_id, found in self._coordinator.get_many(txn_ids).items()
            if (outcome := outcome_of(found.status)) in _ACTIONS
        }


class _Locked(NamedTuple):
    """The record and the head of a partition, locked, with the head of its sidecar log."""

    record: Row
    head: Row | None


def _hold(session: Session, location: Location, partition: PartitionName) -> _Locked:
    records = session.all("hold_with_sidecar", partition_id=location.partition_id)
    if not records:
        raise PartitionNotFound(f"{partition} is gone.")
    head = session.one("lock_head", partition_id=location.partition_id)
    sidecar = session.one("sidecar_log", partition_id=location.partition_id)
    if sidecar is not None:
        session.one("lock_head", partition_id=sidecar.partition_id)
    return _Locked(records[0], head)


def _ledger(location: Location) -> int | None:
    """The ledger that a partition's log goes on in; None while it has no head."""
    with location.database.session() as session:
        head = session.one("head", partition_id=location.partition_id)
    return head.ledger_id if head else None


def _cut(location: Location, offset: int, *, decided: Sequence[str], end: int | None) -> Row:
    """``decided``: transactions, by their ids, whose part may be cut."""

    def work(session: Session) -> Row:
        return session.one(
            "truncate",
            partition_id=location.partition_id,
            offset=offset,
            limit=_CUT,
            decided=list(decided),
            end=end,
        )

    return location.database.retrying(work)


def _in_use(txn_ids: Sequence[TxnID]) -> TopicInUse:
    named = [str(txn_id) for txn_id in txn_ids[:_NAMED]]
    return TopicInUse(
        f"{', '.join(named)} would lose messages or acknowledgements; end them first.",
        holders=named,
    )


def _refusal(row: Row, partition: PartitionName) -> EngineError:
    """The error for a truncation that ``functions/broker/truncate.sql`` has refused."""
    if row.result == "online":
        return InvalidPartitionState(
            f"{partition} is online; take it offline first.",
            current_state=PartitionState.ONLINE.value,
        )
    if row.result == "below_start":
        return InvalidRequest(f"{partition} begins at offset {row.next_offset}.", field="offset")
    if row.result == "commits":
        return InvalidRequest(
            f"{partition} is sidecar-buffered: what a transaction has committed cannot be cut off;"
            f" truncate it to offset {row.next_offset} or above.",
            field="offset",
        )
    return PartitionNotFound(f"{partition} is gone.")

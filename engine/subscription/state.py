"""The state of one subscription in one partition: a value that is read, decided on, and stored.

Reading waits for no lock. Storing takes the cursors' locks and is a compare-and-set on the versions
that were read; a call that comes too late decides again, under the locks. So the consumers of a
subscription wait for each other only while they store. A call takes two round trips, or one, when
this process has just stored the state itself (engine.subscription.memory).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import msgspec

from engine.log.rows import txn_of
from engine.log.windows import Window
from engine.model.cursor import Cursor, held
from engine.model.dispatch import Dispatch, decode, encode
from engine.model.errors import InvalidTxnStatus
from engine.model.ranges import NOTHING, Ranges, Run
from engine.model.subscription import AckOp, AckStep, AckType, PendingAck, TentativeAck
from engine.model.txn_id import TxnID
from engine.postgres.session import Row, Session
from engine.subscription.statements import (
    READ,
    STORE,
    STORE_CLAIM,
    STORE_DISPATCH,
    STORE_ONE,
    ReadRow,
)


class CursorGone(Exception):
    """A cursor that was to be changed does not exist (any more)."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one subscription in one partition. A struct, because a call makes several.

    Attributes:
        stable_position: None while the partition has to be rebuilt; then ``log_start_offset``,
            ``open_ledger`` and ``open_since`` are not known either.
        now_ms: the database's clock when the state was read.
        open_ledger: the ledger that appends go to, since the offset ``open_since``.
        pending: what transactions hold.
        tentative: which of that was claimed by calls over several brokers.
        dead: messages on their way to the dead-letter topic.
        window: the entries that were read with the state, when some were asked for.
        versions: of the cursor's and the dispatch state's rows, for the compare-and-set.
        remembered: the state was not read, but stored by this process a while ago. Then
            ``stable_position`` and ``open_ledger`` may have moved on, and only a store tells
            whether the rest is still right.
    """

    partition_id: int
    number: int
    buffer: str
    online: bool
    stable_position: int | None
    now_ms: int
    log_start_offset: int
    open_ledger: int
    open_since: int
    cursor: Cursor
    pending: tuple[PendingAck, ...]
    tentative: tuple[TentativeAck, ...]
    dead: Ranges
    dispatch: Dispatch
    window: Window | None
    versions: tuple[int, int | None]
    remembered: bool = False

    @property
    def held(self) -> Ranges:
        """The messages that may be neither delivered nor claimed: those that transactions hold, and
        those on their way to the dead-letter topic."""
        return held(self.pending) | self.dead if self.pending else self.dead

    @property
    def busy(self) -> Ranges:
        """The messages that may not be delivered now: held, or in flight."""
        return self.dispatch.in_flight() | self.held

    def changed(self, **changes: Any) -> Self:
        """The state with some fields replaced."""
        return msgspec.structs.replace(self, **changes)

    def delete(self, offsets: Ranges) -> State:
        """Acknowledge messages for good."""
        return self.changed(
            cursor=self.cursor.delete(offsets), dispatch=self.dispatch.forget(offsets)
        )

    def withdraw(self, offsets: Ranges) -> State:
        """Take messages out of flight without giving them back."""
        return self.changed(dispatch=self.dispatch.withdraw(offsets))

    def hold(self, offsets: Ranges) -> State:
        """Take messages out of flight that a transaction holds from now on."""
        return self.changed(dispatch=self.dispatch.hold(offsets))

    def give_back(self, offsets: Ranges) -> State:
        """Queue messages for redelivery, except those that are deleted or held."""
        if not offsets:
            return self
        again = self.cursor.undeleted(offsets) - self.held
        return self.changed(dispatch=self.dispatch.withdraw(offsets).give_back(again))


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a state.

    Attributes:
        steps: records for the pending-ack log.
        dead: new dead letters, for partition ``target`` of the dead-letter topic.
        undead: dead letters that have arrived there.
    """

    before: State
    after: State
    steps: Sequence[AckStep] = ()
    dead: Ranges = NOTHING
    target: int = 0
    undead: Ranges = NOTHING


def read(
    session: Session,
    subscription_id: int,
    partition_ids: Sequence[int],
    *,
    lock: bool,
    room: int = 0,
    ahead: int = 0,
    max_bytes: int = 0,
) -> list[State]:
    """Read states, ascending by partition; a partition without a cursor is left out.

    Args:
        lock: wait for the cursors' locks, and keep them.
        room, ahead, max_bytes: how much of the log to read along
            (functions/broker/read_cursors.sql).
    """
    return of_rows(session.ask(READ, subscription_id, partition_ids, lock, room, ahead, max_bytes))


def of_rows(rows: Iterable[Iterable[Any]]) -> list[State]:
    """The states in rows of functions/broker/read_cursors.sql, ascending by partition."""
    states = [_state(ReadRow._make(row)) for row in rows]
    return sorted(states, key=lambda state: state.partition_id)


def store(
    session: Session,
    subscription_id: int,
    changes: Sequence[Change],
    *,
    durable: bool,
    serving: bool = False,
    locked: bool = True,
    meanwhile: Callable[[], object] | None = None,
) -> list[State]:
    """Store changes, all or none.

    Args:
        durable: the store must outlive a crash.
        serving: also store nothing when a partition is offline or has to be rebuilt.
        meanwhile: may be called while the server works.
        locked: the caller holds the cursors' locks. Without them a single plain change goes by a
            leaner statement, which may store nothing although nothing has changed.

    Returns:
        The states as they are stored; none when one of them had been changed by somebody else.

    Raises:
        CursorGone: a cursor has been deleted.
        InvalidTxnStatus: a transaction that claims something has ended for this subscription.
    """
    if not locked and len(changes) == 1:
        if _is_plain(changes[0]):
            return _store_one(
                session, subscription_id, changes[0], durable=durable, meanwhile=meanwhile
            )
        if _is_claim(changes[0]):
            return _store_claim(session, subscription_id, changes[0])
    rows = session.ask(STORE, subscription_id, *stored(changes), durable, serving)
    result = rows[0][0]
    if result == "gone":
        raise CursorGone
    if result == "ended":
        claimed = next(step for change in changes for step in change.steps)
        raise InvalidTxnStatus(
            f"{claimed.txn_id} has ended for this subscription; nothing was recorded."
        )
    if result != "stored":
        return []
    return [
        change.after.changed(versions=(cursor, dispatch), now_ms=now_ms)
        for change, (_, cursor, dispatch, now_ms) in zip(changes, rows, strict=True)
    ]


def stored(changes: Sequence[Change]) -> list[list[Any]]:
    """What a statement that stores changes is given, but for the subscription and how to store
    (functions/broker/store_cursors.sql)."""
    steps = [(change.before.partition_id, step) for change in changes for step in change.steps]
    return [
        [change.before.partition_id for change in changes],
        [change.before.versions[0] for change in changes],
        [change.before.versions[1] for change in changes],
        [_moved_to(change) for change in changes],
        [change.after.cursor.acked for change in changes],
        [change.after.dispatch.due_offset for change in changes],
        [change.after.dispatch.next_deadline_ms for change in changes],
        [encode(change.after.dispatch) for change in changes],
        [change.dead or None for change in changes],
        [change.undead or None for change in changes],
        [change.target for change in changes],
        [partition_id for partition_id, _ in steps],
        [step.txn_id.tc_id for _, step in steps],
        [step.txn_id.sequence for _, step in steps],
        [step.op.value for _, step in steps],
        [step.ack_type.value for _, step in steps],
        [step.ranges for _, step in steps],
        [step.call_id for _, step in steps],
    ]


def _is_plain(change: Change) -> bool:
    special = change.steps or change.dead or change.undead
    return not special and change.before.versions[1] is not None


def _is_claim(change: Change) -> bool:
    """Whether a transaction claims messages by a call on one broker, and nothing else happens."""
    before, after = change.before, change.after
    others = before.tentative or change.dead or change.undead or after.cursor != before.cursor
    if others or before.versions[1] is None or len(change.steps) != 1:
        return False
    [step] = change.steps
    return step.op is AckOp.ACK and not step.call_id


def _store_one(
    session: Session,
    subscription_id: int,
    change: Change,
    *,
    durable: bool,
    meanwhile: Callable[[], object] | None = None,
) -> list[State]:
    """As :func:`store`, for one plain change without locks. Nothing is stored either when the
    cursor has been deleted, or the partition does not serve."""
    before, after = change.before, change.after
    stored = (
        subscription_id,
        before.partition_id,
        *before.versions,
        after.dispatch.due_offset,
        after.dispatch.next_deadline_ms,
        encode(after.dispatch),
        durable,
    )
    if after.cursor == before.cursor:
        rows = session.ask(STORE_DISPATCH, *stored, meanwhile=meanwhile)
    else:
        moved = after.cursor.mark_delete, after.cursor.acked
        rows = session.ask(STORE_ONE, *stored, *moved, meanwhile=meanwhile)
    return [
        after.changed(versions=(cursor, dispatch), now_ms=now_ms)
        for cursor, dispatch, now_ms, _ in rows
    ]


def _store_claim(session: Session, subscription_id: int, change: Change) -> list[State]:
    """As :func:`_store_one`; a transaction that has ended counts as changed, too."""
    before, after, [step] = change.before, change.after, change.steps
    rows = session.ask(
        STORE_CLAIM,
        subscription_id,
        before.partition_id,
        *before.versions,
        after.dispatch.due_offset,
        after.dispatch.next_deadline_ms,
        encode(after.dispatch),
        step.txn_id.tc_id,
        step.txn_id.sequence,
        step.ack_type.value,
        step.ranges,
    )
    return [
        after.changed(versions=(before.versions[0], dispatch), now_ms=now_ms)
        for dispatch, now_ms in rows
    ]


def pending_ack(row: Row) -> PendingAck:
    """From a row of broker.pending_ack."""
    return PendingAck(txn_id=txn_of(row), ack_type=AckType(row.ack_type), ranges=row.ranges)


def _moved_to(change: Change) -> int | None:
    after = change.after.cursor
    return after.mark_delete if after != change.before.cursor else None


def _acked(row: ReadRow) -> Ranges:
    if row.acked is not None:
        return row.acked
    return Ranges(tuple(zip(row.acked_lowers or (), row.acked_uppers, strict=True)))


def _by_holder(*columns: Sequence[Any] | None) -> Iterator[tuple[int, int, Any, Ranges]]:
    """Columns that have an element for each range: the holder's id and something else of it, which
    are answered with all of its ranges, and the bounds."""
    found: dict[tuple[int, int, Any], list[Run]] = {}
    for tc_id, sequence, other, lower, upper in zip(*(each or () for each in columns), strict=True):
        found.setdefault((tc_id, sequence, other), []).append((lower, upper))
    return ((*holder, Ranges(tuple(runs))) for holder, runs in found.items())


def _state(row: ReadRow) -> State:
    pending = _by_holder(
        *(row.pending_tcs, row.pending_sequences, row.pending_cumulative),
        *(row.pending_lowers, row.pending_uppers),
    )
    tentative = _by_holder(
        *(row.tentative_tcs, row.tentative_sequences, row.tentative_calls),
        *(row.tentative_lowers, row.tentative_uppers),
    )
    return State(
        partition_id=row.partition_id,
        number=row.number,
        buffer=row.buffer,
        online=row.online,
        stable_position=row.stable_position,
        now_ms=row.now_ms,
        log_start_offset=row.log_start_offset,
        open_ledger=row.open_ledger,
        open_since=row.open_since,
        cursor=Cursor(mark_delete=row.mark_delete, acked=_acked(row)),
        pending=tuple(
            PendingAck(
                txn_id=TxnID(tc_id, sequence),
                ack_type=AckType.CUMULATIVE if cumulative else AckType.INDIVIDUAL,
                ranges=ranges,
            )
            for tc_id, sequence, cumulative, ranges in pending
        ),
        tentative=tuple(
            TentativeAck(txn_id=TxnID(tc_id, sequence), call_id=call_id, ranges=ranges)
            for tc_id, sequence, call_id, ranges in tentative
        ),
        dead=row.dead or NOTHING,
        dispatch=decode(row.state, row.mark_delete),
        window=None
        if row.kinds is None
        else Window.of_columns(row.window_from, row.window_upper, row),
        versions=(row.cursor_version, row.dispatch_version),
    )

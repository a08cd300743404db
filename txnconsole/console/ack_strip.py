"""What has become of a subscription's offsets, one by one, drawn as a strip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.inspect.subscriptions import CursorState
from engine.model.message import StoredMessage, Visibility
from engine.model.subscription import PendingAck
from engine.model.txn_id import TxnID

#: The offsets in a row of the strip, and the number of rows.
COLUMNS, ROWS = 64, 4
#: The height of a row, and of a cell in it, in the drawing's units; a cell is ten wide.
ROW_HEIGHT, CELL_HEIGHT, CELL_WIDTH = 22, 16, 10


class AckState(StrEnum):
    """What has become of an offset, for one subscription."""

    ACKED = "acked"
    PENDING = "pending"
    DEAD = "dead"
    IN_FLIGHT = "in_flight"
    REDELIVER = "redeliver"
    UNREAD = "unread"
    CONTROL = "control"
    HIDDEN = "hidden"


#: The name of each state on the page.
NAMES: Mapping[AckState, str] = {
    AckState.ACKED: "Acknowledged",
    AckState.PENDING: "Held by a transaction",
    AckState.DEAD: "To the dead-letter topic",
    AckState.IN_FLIGHT: "In flight",
    AckState.REDELIVER: "To be redelivered",
    AckState.UNREAD: "Not acknowledged",
    AckState.CONTROL: "Nobody gets it",
    AckState.HIDDEN: "Above the stable position",
}


@dataclass(frozen=True, slots=True)
class AckRun:
    """Neighbouring offsets with the same state. ``who``: the transaction or the consumer that has
    them."""

    first: int
    last: int
    state: AckState
    who: TxnID | str | None

    @property
    def name(self) -> str:
        return NAMES[self.state]

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def runs_of(
    cursor: CursorState,
    pending: Sequence[PendingAck],
    entries: Iterable[StoredMessage],
    *,
    start: int,
    end: int,
) -> list[AckRun]:
    """The states of the offsets from ``start`` to ``end``, with equal neighbours joined.

    Args:
        entries: the entries at these offsets, with what a reader makes of them.
    """
    stable = cursor.stable_position
    skipped = frozenset(
        entry.offset
        for entry in entries
        if entry.visibility in (Visibility.MARKER, Visibility.ABORTED)
    )
    runs: list[AckRun] = []
    for offset in range(start, end + 1):
        state, who = _fate(cursor, pending, offset)
        if state is AckState.UNREAD:
            if stable is None or offset > stable:
                state = AckState.HIDDEN
            elif offset in skipped:
                state = AckState.CONTROL
        before = runs[-1] if runs else None
        if before and (before.state, before.who) == (state, who):
            runs[-1] = AckRun(before.first, offset, state, who)
        else:
            runs.append(AckRun(offset, offset, state, who))
    return runs


def _fate(
    cursor: CursorState, pending: Sequence[PendingAck], offset: int
) -> tuple[AckState, TxnID | str | None]:
    if offset <= cursor.mark_delete_offset or offset in cursor.acked:
        return AckState.ACKED, None
    for one in pending:
        if offset in one.ranges:
            return AckState.PENDING, one.txn_id
    if offset in cursor.dead:
        return AckState.DEAD, None
    for consumer, ranges in cursor.delivered.items():
        if offset in ranges:
            return AckState.IN_FLIGHT, consumer
    return (AckState.REDELIVER if offset in cursor.redeliver else AckState.UNREAD), None


def drawn(runs: Iterable[AckRun], start: int) -> dict[AckState, str]:
    """Runs on the strip, whose first offset is ``start``: for each state that there is one SVG path
    with a cell for each part of a run that is on one row, in the drawing's units."""
    paths: dict[AckState, str] = {}
    for run in runs:
        first = run.first
        while first <= run.last:
            row, column = divmod(first - start, COLUMNS)
            length = min(run.last - first + 1, COLUMNS - column)
            x, y, width = column * CELL_WIDTH, row * ROW_HEIGHT, length * CELL_WIDTH
            cell = f"M{x} {y}h{width}v{CELL_HEIGHT}h-{width}z"
            paths[run.state] = paths.get(run.state, "") + cell
            first += length
    return paths

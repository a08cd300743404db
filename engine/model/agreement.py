"""Whether what a participant says of a transaction agrees with its coordinator (semantics §8, 2).

The rule: all participants of an ended transaction have the same outcome exactly once, and no data
of the transaction comes after its marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from engine.model.transaction import ParticipantState
from engine.model.txn_status import Outcome, TxnStatus, outcome_of


class Says(StrEnum):
    """What a participant says of a transaction: the state it is in there. NOTHING: the participant
    holds nothing of it and remembers no end. GONE: the participant has been deleted. UNAVAILABLE:
    it could not be asked."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    NOTHING = "NOTHING"
    GONE = "GONE"
    UNAVAILABLE = "UNAVAILABLE"


class Discord(StrEnum):
    """A way in which a participant and the coordinator disagree.

    OPPOSITE: the participant has the other outcome. TWICE: it has an outcome more than once. EARLY:
    it has ended a transaction that is not decided. MISSING: it is recorded as done and knows of no
    end. STILL_OPEN: it is recorded as done and holds the transaction open. DATA_AFTER_MARKER: it
    has messages of the transaction after the marker. RECORDED_OTHERWISE: the coordinator recorded
    another outcome for this participant than for the transaction. UNREGISTERED: it holds something,
    and the coordinator does not list it.
    """

    OPPOSITE = "OPPOSITE"
    TWICE = "TWICE"
    EARLY = "EARLY"
    MISSING = "MISSING"
    STILL_OPEN = "STILL_OPEN"
    DATA_AFTER_MARKER = "DATA_AFTER_MARKER"
    RECORDED_OTHERWISE = "RECORDED_OTHERWISE"
    UNREGISTERED = "UNREGISTERED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Testimony:
    """What the records of one participant tell of a transaction.

    Attributes:
        exists: whether the participant exists.
        holds_open: whether it holds something open.
        commits, aborts: how often it has each outcome.
        is_offline: whether it is a partition that is offline. Truncation may have cut its marker;
            then the transaction is open again, and is ended when the partition is brought online.
        marker_offset, last_data: of a partition, the first marker and the last message.
        must_remember: whether it would still know an end, because neither retention nor the low
            water mark can have removed it.
    """

    exists: bool = True
    holds_open: bool = False
    is_offline: bool = False
    commits: int = 0
    aborts: int = 0
    marker_offset: int | None = None
    last_data: int | None = None
    must_remember: bool = False

    @property
    def says(self) -> Says:
        """The testimony in one word."""
        if not self.exists:
            return Says.GONE
        if self.holds_open:
            return Says.OPEN
        if self.commits or self.aborts:
            return Says.COMMITTED if self.commits else Says.ABORTED
        return Says.NOTHING


_OUTCOME_OF_STATE = {
    ParticipantState.COMMITTED: Outcome.COMMITTED,
    ParticipantState.ABORTED: Outcome.ABORTED,
}


def discords(
    status: TxnStatus, recorded: ParticipantState, testimony: Testimony
) -> tuple[Discord, ...]:
    """How a participant disagrees with the coordinator; empty when they agree.

    A deleted participant agrees with everything. While an end is under way (COMMITTING or ABORTING,
    and ``recorded`` as pending), the participant may hold the transaction open, or have ended it
    without being recorded yet.
    """
    if not testimony.exists:
        return ()
    outcome = outcome_of(status)
    return (*_of_ends(outcome, testimony), *_of_record(outcome, recorded, testimony))


def _of_ends(outcome: Outcome, testimony: Testimony) -> Iterator[Discord]:
    """What is wrong with the ends that a participant has."""
    opposite = testimony.aborts if outcome is Outcome.COMMITTED else testimony.commits
    ends = testimony.commits + testimony.aborts
    if ends and outcome is Outcome.UNDECIDED:
        yield Discord.EARLY
    elif opposite:
        yield Discord.OPPOSITE
    if ends > 1:
        yield Discord.TWICE
    if _data_after_marker(testimony):
        yield Discord.DATA_AFTER_MARKER


def _of_record(
    outcome: Outcome, recorded: ParticipantState, testimony: Testimony
) -> Iterator[Discord]:
    """What is wrong with what the coordinator has recorded of a participant."""
    done = _OUTCOME_OF_STATE.get(recorded)
    if done is None:
        return
    if done is not outcome:
        yield Discord.RECORDED_OTHERWISE
    if testimony.holds_open:
        if not testimony.is_offline:
            yield Discord.STILL_OPEN
    elif testimony.must_remember and not testimony.commits + testimony.aborts:
        yield Discord.MISSING


def _data_after_marker(testimony: Testimony) -> bool:
    marker, data = testimony.marker_offset, testimony.last_data
    return marker is not None and data is not None and data > marker

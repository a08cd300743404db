"""Whether what participants say of a transaction agrees with its coordinator (semantics §8, 2).

Decisions only. For every ended transaction all participants carry the same outcome exactly once,
and no data of it stands after its marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from engine.model.transaction import ParticipantState
from engine.model.txn_status import Outcome, TxnStatus, outcome_of


class Says(StrEnum):
    """What a participant says of a transaction. NOTHING: it holds nothing and remembers no end.
    GONE: it has been deleted. UNAVAILABLE: it could not be asked."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    NOTHING = "NOTHING"
    GONE = "GONE"
    UNAVAILABLE = "UNAVAILABLE"


class Discord(StrEnum):
    """A way in which a participant does not agree.

    OPPOSITE: it carries the other outcome. TWICE: it carries an outcome more than once. EARLY: it
    has ended what is not decided. MISSING: it has carried out nothing, and should have. STILL_OPEN:
    it holds open what is recorded as carried out. DATA_AFTER_MARKER: messages joined after the end.
    RECORDED_OTHERWISE: the coordinator recorded another outcome for it. UNREGISTERED: it holds
    something, and the coordinator does not list it.
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
    """What one participant's records tell: how often it carries each outcome, whether it holds
    something open, and, of a partition, where its first marker and its last message stand.

    ``must_remember`` when nothing (retention, the low water mark) can have let it forget an end.
    """

    exists: bool = True
    holds_open: bool = False
    commits: int = 0
    aborts: int = 0
    marker_offset: int | None = None
    last_data: int | None = None
    must_remember: bool = False

    @property
    def says(self) -> Says:
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
    """How a participant does not agree with its coordinator; empty when it does.

    A deleted participant counts as done. One that has not been told yet (COMMITTING, ABORTING and
    ``recorded`` as pending) may still hold it open, or have carried it out unrecorded.
    """
    if not testimony.exists:
        return ()
    outcome = outcome_of(status)
    return (*_of_ends(outcome, testimony), *_of_record(outcome, recorded, testimony))


def _of_ends(outcome: Outcome, testimony: Testimony) -> Iterator[Discord]:
    """What is wrong with the ends that a participant carries."""
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
    """What is wrong with what the coordinator recorded of a participant."""
    done = _OUTCOME_OF_STATE.get(recorded)
    if done is None:
        return
    if done is not outcome:
        yield Discord.RECORDED_OTHERWISE
    if testimony.holds_open:
        yield Discord.STILL_OPEN
    elif testimony.must_remember and not testimony.commits + testimony.aborts:
        yield Discord.MISSING


def _data_after_marker(testimony: Testimony) -> bool:
    marker, data = testimony.marker_offset, testimony.last_data
    return marker is not None and data is not None and data > marker

"""Whether readers of committed messages get on: those of a partition, of a subscription, or of a
subscription in one partition.

A transaction holds readers back for as long as it is open. For a while they just wait, which is
normal. After that they are at risk while something is left to read before the place where they will
be held, and they have stopped when nothing is left.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from engine.inspect.subscriptions import CursorState, CursorSummary, Progress
from engine.inspect.topics import Readers
from engine.model.partition import PartitionState, PartitionStatus
from engine.model.txn_status import TxnStatus
from txnconsole.quantities import count, counted, duration

#: For how long being held back is normal: every open transaction holds partitions back.
PATIENCE_MS = 60_000


class Reach(StrEnum):
    """The verdict."""

    GO_ON = "go_on"
    WAITING = "waiting"
    AT_RISK = "at_risk"
    STOPPED = "stopped"


_WORDS = {
    Reach.GO_ON: "Go on",
    Reach.WAITING: "Waiting",
    Reach.AT_RISK: "At risk",
    Reach.STOPPED: "Stopped",
}
#: The transaction states whose badges are borrowed.
_BADGES = {
    Reach.GO_ON: TxnStatus.COMMITTED,
    Reach.WAITING: TxnStatus.OPEN,
    Reach.AT_RISK: TxnStatus.ABORTING,
    Reach.STOPPED: TxnStatus.ABORTED,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on some readers, and a sentence that gives the reason."""

    reach: Reach
    reason: str

    @property
    def word(self) -> str:
        return _WORDS[self.reach]

    @property
    def badge(self) -> TxnStatus:
        return _BADGES[self.reach]

    @property
    def is_news(self) -> bool:
        return self.reach in (Reach.AT_RISK, Reach.STOPPED)


def held_ms(status: PartitionStatus) -> int | None:
    """For how long the blocker of a partition has held it back, in milliseconds; None when nothing
    does."""
    if status.blocker is None or not status.hidden_messages:
        return None
    return max(0, status.held_for // timedelta(milliseconds=1))


def is_held_long(status: PartitionStatus) -> bool:
    """Whether it has been held back for longer than is normal. Only then it matters how far its
    readers are."""
    held = held_ms(status)
    return held is not None and held > PATIENCE_MS


def of_partition(status: PartitionStatus, readers: Readers | None) -> Verdict:
    """The verdict on a partition.

    Args:
        readers: how far its subscriptions are, needed where :func:`is_held_long`; None when
            they could not be asked.
    """
    not_served = _not_served(status.state, status.offline_reason)
    if not_served is not None:
        return not_served
    held = held_ms(status)
    if held is None or held <= PATIENCE_MS:
        return _no_news(held)
    since = f"Held back for {duration(held)}"
    if readers is None:
        return Verdict(Reach.AT_RISK, f"{since}; how far its readers are is not known.")
    if not readers.subscriptions:
        return Verdict(Reach.AT_RISK, f"{since}; no subscription has read here.")
    if readers.caught_up:
        of = f"{count(readers.caught_up)} of {count(readers.subscriptions)} subscriptions have"
        of = "its one subscription has" if readers.subscriptions == 1 else of
        return Verdict(Reach.STOPPED, f"{since}; {of} nothing left before that.")
    return Verdict(Reach.AT_RISK, f"{since}; its subscriptions have something left before that.")


def of_cursor(cursor: CursorState) -> Verdict:
    """The verdict on a subscription in one partition."""
    state = PartitionState.ONLINE
    if not cursor.online:
        state = PartitionState.OFFLINE
    elif cursor.stable_position is None:
        state = PartitionState.RECOVERING
    return _not_served(state, None) or _held(cursor.held_ms, cursor.unacknowledged)


def of_reader(cursor: CursorSummary, status: PartitionStatus) -> Verdict:
    """As :func:`of_cursor`, on the partition's own page."""
    not_served = _not_served(status.state, status.offline_reason)
    return not_served or _held(held_ms(status), cursor.unacknowledged)


def of_subscription(progress: Progress, away: Collection[str] = ()) -> Verdict:
    """The verdict on a subscription over its partitions. It has stopped when nothing can come from
    any of them; while something can come from one of them, or might, it is at risk.

    Args:
        away: brokers of its topic that do not answer, of whose partitions nothing is known.
    """
    known = _of_known(progress)
    if not away:
        return known
    names = ", ".join(sorted(away))
    rest = f"{names} cannot be reached; its partitions are left out."
    return Verdict(Reach.AT_RISK, f"{known.reason} {rest}" if known.is_news else rest)


def _of_known(progress: Progress) -> Verdict:
    if not progress.partitions:
        return Verdict(Reach.GO_ON, "It has read nowhere yet.")
    if progress.offline + progress.starved:
        return _partly_stopped(progress)
    if progress.held:
        return _held(progress.held_ms, progress.remaining, _scope(progress.held, progress))
    if progress.recovering:
        recovering = _scope(progress.recovering, progress)
        return Verdict(Reach.AT_RISK, f"Recovering{recovering}; readers wait for that.")
    return _no_news(progress.held_ms)


def _partly_stopped(progress: Progress) -> Verdict:
    """Of a subscription to which nothing can come from some of its partitions, or from all."""
    since = [f"held back for {duration(progress.held_ms)}"] if progress.starved else []
    since += ["offline"] if progress.offline else []
    why = " and ".join(since).capitalize()
    is_over = not (progress.going or progress.recovering)
    reach = Reach.STOPPED if is_over else Reach.AT_RISK
    if progress.partitions == 1:
        left = ", and nothing is left before that" if progress.starved else ""
        return Verdict(reach, f"{why}{left}.")
    stopped = progress.offline + progress.starved
    others = ""
    if progress.remaining:
        others = f", {counted(progress.remaining, 'offset')} left in the others"
    elif not is_over:
        others = ", the others wait"
    elif stopped < progress.partitions:
        others = ", nothing left in the others"
    return Verdict(reach, f"{why}; stopped{_scope(stopped, progress)}{others}.")


def _scope(some: int, progress: Progress) -> str:
    """In how many of its partitions something is so; nothing for its only one."""
    if progress.partitions == 1:
        return ""
    return f" in {count(some)} of {count(progress.partitions)} partitions"


def _not_served(state: PartitionState, why: str | None) -> Verdict | None:
    if state is PartitionState.OFFLINE:
        return Verdict(Reach.STOPPED, f"Offline: {why}" if why else "The partition is offline.")
    if state is PartitionState.RECOVERING:
        return Verdict(Reach.AT_RISK, "Recovering; readers wait until it has been rebuilt.")
    return None


def _held(held: int | None, left: int, where: str = "") -> Verdict:
    if held is None or held <= PATIENCE_MS:
        return _no_news(held)
    since = f"Held back for {duration(held)}{where}"
    if left > 0:
        return Verdict(Reach.AT_RISK, f"{since}; {counted(left, 'offset')} left before that.")
    return Verdict(Reach.STOPPED, f"{since}, and nothing is left before that.")


def _no_news(held: int | None) -> Verdict:
    if held is None:
        return Verdict(Reach.GO_ON, "Nothing holds readers back.")
    return Verdict(Reach.WAITING, f"Held back for {duration(held)}, which is not long.")

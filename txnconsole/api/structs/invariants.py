"""The invariants of semantics §8 and what was found against them."""

from __future__ import annotations

from engine.inspect.checks import Check as EngineCheck
from engine.inspect.invariants import InvariantState, KnownCheck, Report
from engine.model.moment import time_text
from engine.model.topic_name import PartitionName
from txnconsole.api.structs.fields import (
    Answer,
    Evidence,
    Offset,
    PageQuery,
    PartitionText,
    Query,
    Time,
    optional_time,
)


class CheckQuery(Query):
    """Where a check of a long log goes on."""

    position: Offset = 0


class Check(Answer):
    """A check of an invariant (with its number in the design) for a partition. ``holds`` is null
    when it could not be checked; ``skipped`` says why."""

    invariant: int
    name: str
    holds: bool | None
    counter_examples: list[Evidence]
    skipped: str | None

    @classmethod
    def of(cls, check: EngineCheck) -> Check:
        return cls(
            invariant=check.invariant,
            name=check.name,
            holds=check.passed,
            counter_examples=[dict(each) for each in check.counter_examples],
            skipped=check.skipped,
        )


class PartitionCheck(Answer):
    """``next_position`` is null when the whole log has been checked."""

    partition: PartitionText
    checks: list[Check]
    next_position: int | None

    @classmethod
    def of(cls, partition: PartitionName, report: Report) -> PartitionCheck:
        return cls(
            partition=str(partition),
            checks=[Check.of(each) for each in report.checks],
            next_position=report.position,
        )


class InvariantsQuery(PageQuery):
    broken: bool = False


class Invariant(Answer):
    """What is known of an invariant, from the last whole pass and the present one so far."""

    invariant: int
    name: str
    subject: str
    holds: bool
    counter_examples: list[Evidence]
    detail: str | None
    checked_at: Time
    completed_at: Time | None

    @classmethod
    def of(cls, known: KnownCheck) -> Invariant:
        return cls(
            invariant=known.invariant,
            name=known.name,
            subject=known.subject,
            holds=known.holds,
            counter_examples=[dict(each) for each in known.counter_examples],
            detail=known.detail,
            checked_at=time_text(known.checked_at),
            completed_at=optional_time(known.completed_at),
        )


class Invariants(Answer):
    """How many checks there are and how many have failed, whatever part of them the page shows."""

    checks: int
    broken: int
    oldest_check_at: Time | None
    newest_check_at: Time | None
    items: list[Invariant]
    next_cursor: str | None

    @classmethod
    def of(cls, state: InvariantState) -> Invariants:
        return cls(
            checks=state.checks,
            broken=state.broken,
            oldest_check_at=optional_time(state.oldest),
            newest_check_at=optional_time(state.newest),
            items=[Invariant.of(each) for each in state.page.items],
            next_cursor=state.page.next_cursor,
        )

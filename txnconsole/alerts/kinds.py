"""What a rule can measure: one table, with the unit and the default rule of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a rule measures; :data:`KINDS` describes each."""

    OVERDUE = "overdue"
    HELD_BACK = "held_back"
    BLOCKER_TIMEOUT = "blocker_timeout"
    STUCK_ENDING = "stuck_ending"
    ABORT_RATIO = "abort_ratio"
    CONFLICT_RATE = "conflict_rate"
    DEAD_LETTERS_STRANDED = "dead_letters_stranded"
    SNAPSHOT_AGE = "snapshot_age"
    COORDINATOR_RECOVERING = "coordinator_recovering"
    INVARIANT_BROKEN = "invariant_broken"
    DATABASE_AWAY = "database_away"
    WORKER_SILENT = "worker_silent"


class Unit(StrEnum):
    """The unit of a threshold and of a value."""

    MILLISECONDS = "ms"
    PERCENT = "percent"
    PER_MINUTE = "per_minute"
    COUNT = "count"


class Severity(StrEnum):
    """How bad an alert is, from the least to the worst. No TextChoices, as the contract's schema is
    made of it."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Greater is worse."""
        return list(Severity).index(self)


#: As a model's field and a form's take them.
SEVERITIES = [(severity.value, severity.value.capitalize()) for severity in Severity]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A kind's title, what it measures, in which unit, and its default rule.

    ``by_topic``: a rule may be limited to topics.
    """

    title: str
    measures: str
    unit: Unit
    threshold: float
    for_ms: int
    severity: Severity
    by_topic: bool = False


KINDS: Mapping[Kind, Terms] = {
    Kind.OVERDUE: Terms(
        title="Transaction overdue",
        measures="How far an open transaction is past its deadline.",
        unit=Unit.MILLISECONDS,
        threshold=10_000,
        for_ms=0,
        severity=Severity.CRITICAL,
    ),
    Kind.HELD_BACK: Terms(
        title="Partition held back",
        measures="For how long the first message that readers of a partition cannot reach has been"
        " there.",
        unit=Unit.MILLISECONDS,
        threshold=60_000,
        for_ms=0,
        severity=Severity.WARNING,
        by_topic=True,
    ),
    Kind.BLOCKER_TIMEOUT: Terms(
        title="Blocker near its timeout",
        measures="How much of its timeout the open transaction that holds a partition back has"
        " used.",
        unit=Unit.PERCENT,
        threshold=80,
        for_ms=0,
        severity=Severity.INFO,
        by_topic=True,
    ),
    Kind.STUCK_ENDING: Terms(
        title="Ending stuck",
        measures="For how long a transaction has been COMMITTING or ABORTING.",
        unit=Unit.MILLISECONDS,
        threshold=30_000,
        for_ms=0,
        severity=Severity.CRITICAL,
    ),
    Kind.ABORT_RATIO: Terms(
        title="Many aborts",
        measures="Aborted transactions among those that ended within five minutes, from twenty"
        " ends on.",
        unit=Unit.PERCENT,
        threshold=10,
        for_ms=60_000,
        severity=Severity.WARNING,
    ),
    Kind.CONFLICT_RATE: Terms(
        title="Many ack conflicts",
        measures="Acknowledgements of a subscription that were refused because another transaction"
        " held the message, a minute, over five minutes.",
        unit=Unit.PER_MINUTE,
        threshold=10,
        for_ms=60_000,
        severity=Severity.WARNING,
        by_topic=True,
    ),
    Kind.DEAD_LETTERS_STRANDED: Terms(
        title="Dead letters stranded",
        measures="Messages of a subscription that wait for a dead-letter topic that has been"
        " deleted; at most a hundred are counted on each broker.",
        unit=Unit.COUNT,
        threshold=0,
        for_ms=60_000,
        severity=Severity.WARNING,
        by_topic=True,
    ),
    Kind.SNAPSHOT_AGE: Terms(
        title="Snapshot late",
        measures="Age of the newest snapshot of a partition whose buffer has changed since.",
        unit=Unit.MILLISECONDS,
        threshold=60_000,
        for_ms=30_000,
        severity=Severity.WARNING,
        by_topic=True,
    ),
    Kind.COORDINATOR_RECOVERING: Terms(
        title="Coordinator recovering",
        measures="For how long a coordinator has been recovering.",
        unit=Unit.MILLISECONDS,
        threshold=30_000,
        for_ms=0,
        severity=Severity.WARNING,
    ),
    Kind.INVARIANT_BROKEN: Terms(
        title="Invariant broken",
        measures="Counter-examples that the continuous checks have found.",
        unit=Unit.COUNT,
        threshold=0,
        for_ms=0,
        severity=Severity.CRITICAL,
    ),
    Kind.DATABASE_AWAY: Terms(
        title="Broker away",
        measures="Whether a broker's database does not serve, as for /readyz (1).",
        unit=Unit.COUNT,
        threshold=0,
        for_ms=10_000,
        severity=Severity.CRITICAL,
    ),
    Kind.WORKER_SILENT: Terms(
        title="Workers silent",
        measures="For how long no worker has evaluated the rules.",
        unit=Unit.MILLISECONDS,
        threshold=30_000,
        for_ms=0,
        severity=Severity.CRITICAL,
    ),
}

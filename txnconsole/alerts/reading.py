"""What fires now, for whoever shows it: the pages, the REST interface, the metrics.

No worker can raise the alert that there is no worker. It is made here, by comparing the time of the
last evaluation with the database's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from django.db import connection
from django.db.models import (
    Case,
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    IntegerField,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.functions import Now

from txnconsole.alerts.kinds import KINDS, Kind, Severity, Unit
from txnconsole.alerts.models import Alert
from txnconsole.alerts.silencing import Holding, Silences
from txnconsole.alerts.silent_workers import WORKERS
from txnconsole.alerts.states import AlertState
from txnconsole.alerts.units import milliseconds

#: The most alerts that are listed at once.
MAX_FIRING = 500
#: A worker that evaluated so recently is not silent, whatever the rules say.
_ALIVE_MS = 10_000
_STANDING = (Path(__file__).parent / "sql" / "standing.sql").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """An alert that fires, as it is shown.

    ``id`` is None for silent workers: there was no worker to store that alert. ``value`` and
    ``threshold`` are in ``unit``. ``samples`` are the last values, the newest at the end.
    ``resolved_at`` is set only when a page goes on listing an alert that is over.
    """

    id: int | None
    rule_id: int | None
    rule: str
    kind: Kind
    severity: Severity
    object: str
    detail: str
    value: float
    threshold: float
    since: datetime
    now: datetime
    silenced_until: datetime | None = None
    acknowledged_by: str = ""
    acknowledgement: str = ""
    samples: Sequence[float] = field(default_factory=tuple)
    resolved_at: datetime | None = None

    @property
    def key(self) -> str:
        """Identifies it among all that fire, even when it has no id."""
        return f"w{self.rule_id}" if self.id is None else str(self.id)

    @property
    def unit(self) -> Unit:
        """The unit of its value and threshold."""
        return KINDS[self.kind].unit

    @property
    def silenced(self) -> bool:
        """Whether a silence covers it now."""
        return self.silenced_until is not None

    @property
    def since_ms(self) -> int:
        """For how long it has been firing, in milliseconds."""
        return (self.now - self.since) // timedelta(milliseconds=1)


class _SilentRule(msgspec.Struct):
    """A rule about silent workers, as sql/standing.sql writes it."""

    id: int
    name: str
    severity: Severity
    threshold: float
    silences: list[Holding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the alerts stand at the moment ``now``.

    ``evaluated_at`` is when a worker last evaluated all rules, None when none ever has; ``stored``
    counts the stored alerts that fire and are not silenced; ``silent_workers`` are the alerts
    about silent workers, one for each such rule whose threshold has passed.
    """

    now: datetime
    evaluated_at: datetime | None
    stored: int
    silent_workers: Sequence[Firing]

    @property
    def firing(self) -> int:
        """How many alerts fire and are not silenced. Acknowledged ones count: they still fire."""
        return self.stored + sum(not one.silenced for one in self.silent_workers)


def standing() -> Standing:
    """Read how the alerts stand, in one question (sql/standing.sql)."""
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, {"alive_ms": _ALIVE_MS})
        now, at, stored, silent = cursor.fetchone()
    rules = msgspec.json.decode(silent or b"[]", type=list[_SilentRule])
    return Standing(
        now=now,
        evaluated_at=at,
        stored=stored,
        silent_workers=[_alert_about_silent_workers(rule, at, now) for rule in rules],
    )


def firing_by_rule(standing: Standing) -> Counter[tuple[str, str]]:
    """As :attr:`Standing.firing`, by the rule's name and the severity."""
    found = _loud().order_by().values_list("rule_name", "severity").annotate(firing=Count("id"))
    counts = Counter({(rule, severity): firing for rule, severity, firing in found})
    silent = standing.silent_workers
    counts.update((one.rule, str(one.severity)) for one in silent if not one.silenced)
    return counts


def firing(standing: Standing, limit: int = MAX_FIRING) -> list[Firing]:
    """What fires, the worst first: unsilenced before silenced, then by severity, then by age."""
    rank = Case(
        *(When(severity=severity, then=Value(-severity.rank)) for severity in Severity),
        output_field=IntegerField(),
    )
    quiet = Case(
        When(silenced_until__gt=Now(), then=Value(1)),
        default=Value(0),
        output_field=IntegerField(),
    )
    found = Alert.objects.filter(state=AlertState.FIRING).order_by(quiet, rank, "fired_at", "id")
    stored = (firing_alert(alert, standing.now) for alert in found[:limit])
    return [*standing.silent_workers, *stored]


def about_to_fire(limit: int) -> tuple[list[Alert], int]:
    """The pending alerts, with their rules, the next to fire first; and how many more there are."""
    pending = Alert.objects.filter(state=AlertState.PENDING)
    hold = ExpressionWrapper(
        F("rule__for_ms") * Value(timedelta(milliseconds=1)), output_field=DurationField()
    )
    soonest = pending.select_related("rule").order_by(F("pending_since") + hold, "id")
    listed = list(soonest[:limit])
    return listed, pending.count() - len(listed) if len(listed) == limit else 0


def firing_alert(alert: Alert, now: datetime) -> Firing:
    """A stored alert as it is shown."""
    until = alert.silenced_until
    return Firing(
        id=alert.pk,
        rule_id=alert.rule_id,
        rule=alert.rule_name,
        kind=Kind(alert.kind),
        severity=Severity(alert.severity),
        object=alert.object,
        detail=alert.detail,
        value=alert.value,
        threshold=alert.threshold,
        since=alert.fired_at or alert.pending_since,
        now=now,
        silenced_until=until if until is not None and until > now else None,
        acknowledged_by=alert.acknowledged_by,
        acknowledgement=alert.acknowledgement,
        samples=tuple(alert.samples),
        resolved_at=alert.resolved_at if alert.state == AlertState.RESOLVED else None,
    )


def as_listed(
    standing: Standing, keys: Sequence[str], since: datetime | None
) -> tuple[list[Firing], int]:
    """The alerts of a list that was read before, in the same order, so that whoever looks at the
    list keeps their place in it; and how many new ones fire.

    Args:
        keys: the keys of the list's alerts (:attr:`Firing.key`).
        since: when the list was read, if it had no room for all. None: it had, so every alert that
            it does not have is new, even one that was measured before the list was read and stored
            after.
    """
    now = standing.now
    ids = [int(key) for key in keys if key.isdecimal()]
    found = {one.key: one for one in standing.silent_workers}
    newer = len(found.keys() - set(keys))
    others = Alert.objects.filter(state=AlertState.FIRING).exclude(pk__in=ids)
    newer += (others if since is None else others.filter(fired_at__gte=since)).count()
    found |= {str(alert.pk): firing_alert(alert, now) for alert in Alert.objects.filter(pk__in=ids)}
    return [found[key] for key in keys if key in found], newer


def unlisted(standing: Standing, listed: Sequence[Firing], newer: int) -> int:
    """How many alerts fire besides those of a list and those that are newer than it."""
    stored = Alert.objects.filter(state=AlertState.FIRING).count()
    fire = stored + len(standing.silent_workers)
    return max(0, fire - newer - sum(one.resolved_at is None for one in listed))


def _loud() -> QuerySet[Alert]:
    return Alert.objects.filter(state=AlertState.FIRING).filter(
        Q(silenced_until=None) | Q(silenced_until__lte=Now())
    )


def _alert_about_silent_workers(rule: _SilentRule, at: datetime, now: datetime) -> Firing:
    """The alert about workers that are silent since ``at``."""
    return Firing(
        id=None,
        rule_id=rule.id,
        rule=rule.name,
        kind=Kind.WORKER_SILENT,
        severity=rule.severity,
        object=WORKERS,
        detail="No worker evaluates the rules: nothing else here is up to date.",
        value=milliseconds(now - at),
        threshold=rule.threshold,
        since=at + timedelta(milliseconds=rule.threshold),
        now=now,
        silenced_until=Silences(rule.silences).until(rule.id, WORKERS),
    )

"""What fires now, for whoever shows it: the pages, the REST interface, the metrics.

No worker can raise the alert that there is no worker. It is made here, by comparing the time of the
last evaluation with the database's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

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

from txnconsole.alerts.clock import database_now
from txnconsole.alerts.kinds import KINDS, Kind, Severity, Unit
from txnconsole.alerts.models import Alert, Evaluation, Rule
from txnconsole.alerts.silencing import open_silences, silenced_until
from txnconsole.alerts.silent_workers import WORKERS
from txnconsole.alerts.states import AlertState
from txnconsole.alerts.units import milliseconds

#: The most alerts that are listed at once.
MAX_FIRING = 500
#: A worker that evaluated so recently is not silent, whatever the rules say.
_ALIVE = timedelta(seconds=10)


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


def firing_count() -> int:
    """How many alerts fire and are not silenced. Acknowledged ones count: they still fire."""
    return firing_by_rule().total()


def firing_by_rule() -> Counter[tuple[str, str]]:
    """As :func:`firing_count`, by the rule's name and the severity."""
    found = _loud().order_by().values_list("rule_name", "severity").annotate(firing=Count("id"))
    counts = Counter({(rule, severity): firing for rule, severity, firing in found})
    counts.update((one.rule, str(one.severity)) for one in silent_workers() if not one.silenced)
    return counts


def firing(limit: int = MAX_FIRING) -> list[Firing]:
    """What fires, the worst first: unsilenced before silenced, then by severity, then by age."""
    now = database_now()
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
    return silent_workers() + [firing_alert(alert, now) for alert in found[:limit]]


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


def as_listed(keys: Sequence[str], since: datetime | None) -> tuple[list[Firing], int]:
    """The alerts of a list that was read before, in the same order, so that whoever looks at the
    list keeps their place in it; and how many new ones fire.

    Args:
        keys: the keys of the list's alerts (:attr:`Firing.key`).
        since: when the list was read, if it had no room for all. None: it had, so every alert that
            it does not have is new, even one that was measured before the list was read and stored
            after.
    """
    now = database_now()
    ids = [int(key) for key in keys if key.isdecimal()]
    found = {one.key: one for one in silent_workers()}
    newer = len(found.keys() - set(keys))
    others = Alert.objects.filter(state=AlertState.FIRING).exclude(pk__in=ids)
    newer += (others if since is None else others.filter(fired_at__gte=since)).count()
    found |= {str(alert.pk): firing_alert(alert, now) for alert in Alert.objects.filter(pk__in=ids)}
    return [found[key] for key in keys if key in found], newer


def unlisted(listed: Sequence[Firing], newer: int) -> int:
    """How many alerts fire besides those of a list and those that are newer than it."""
    fire = Alert.objects.filter(state=AlertState.FIRING).count() + len(silent_workers())
    return max(0, fire - newer - sum(one.resolved_at is None for one in listed))


def last_evaluation() -> datetime | None:
    """When a worker last evaluated all rules; None when none ever has."""
    return Evaluation.objects.values_list("at", flat=True).first()


def _loud() -> QuerySet[Alert]:
    return Alert.objects.filter(state=AlertState.FIRING).filter(
        Q(silenced_until=None) | Q(silenced_until__lte=Now())
    )


def silent_workers() -> list[Firing]:
    """The alerts about silent workers: one for each such rule whose threshold has passed."""
    found = Evaluation.objects.annotate(now=Now()).values_list("at", "now").first()
    if found is None or found[1] - found[0] < _ALIVE:
        return []
    at, now = found
    age_ms = milliseconds(now - at)
    rules = list(Rule.objects.filter(kind=Kind.WORKER_SILENT, enabled=True, threshold__lt=age_ms))
    silences = open_silences() if rules else []
    return [
        Firing(
            id=None,
            rule_id=rule.pk,
            rule=rule.name,
            kind=Kind.WORKER_SILENT,
            severity=Severity(rule.severity),
            object=WORKERS,
            detail="No worker evaluates the rules: nothing else here is up to date.",
            value=age_ms,
            threshold=rule.threshold,
            since=at + timedelta(milliseconds=rule.threshold),
            now=now,
            silenced_until=silenced_until(silences, rule.pk, WORKERS),
        )
        for rule in rules
    ]

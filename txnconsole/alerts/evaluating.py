"""Evaluating all rules: measure, decide, store (invariants: the package).

It may run at any time, on several workers at once. Each rule's evaluation is one SQL transaction.
Its first statement is a compare-and-set: it moves the rule's ``measured_at`` forward only if it is
still what it was before the measuring. When two workers meet, the second therefore changes nothing,
whatever their clocks say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import structlog
from django.db import connection, transaction

from engine import Engine
from txnconsole.alerts import notices
from txnconsole.alerts.deciding import Decision, Known, Limits, Step, decide
from txnconsole.alerts.kinds import Kind, Severity
from txnconsole.alerts.measuring import MAX_OBJECTS, Measured, Measurements, Sample
from txnconsole.alerts.models import Alert, Evaluation, Rule
from txnconsole.alerts.silencing import Silences, open_silences
from txnconsole.alerts.silent_workers import note_gap
from txnconsole.alerts.states import ACTIVE, AlertState, NoticeKind
from txnconsole.enginedb.clock import database_now

#: How many values an alert keeps: five minutes of them, with an evaluation every five seconds.
SAMPLES = 60
_NOTE_SAMPLES = (Path(__file__).parent / "sql" / "note_samples.sql").read_text()
_log = structlog.get_logger(__name__)


def evaluate(engine: Engine) -> int:
    """Evaluate all rules once; one whose evaluation fails does not hold up the others.

    Returns:
        How many alerts began to fire or were resolved.
    """
    seen, _ = Evaluation.objects.get_or_create(pk=1)
    rules = list(Rule.objects.order_by("id"))
    at = database_now()
    measurements = Measurements(engine, _known_objects())
    changed, whole = 0, True
    for rule in rules:
        try:
            measured = measurements.of(Kind(rule.kind)) if rule.enabled else Measured()
            changed += _apply(rule, measured, at)
        except Exception:
            # Nothing is half done; another worker or the next evaluation may succeed.
            _log.exception("rule not evaluated", rule=rule.pk)
            whole = False
    if whole:
        note_gap(seen.at, rules)
    return changed


def _known_objects() -> Mapping[Kind, set[str]]:
    known: dict[Kind, set[str]] = {}
    active = Alert.objects.filter(state__in=ACTIVE, rule__enabled=True)
    for kind, name in active.values_list("kind", "object"):
        known.setdefault(Kind(kind), set()).add(name)
    return known


def _apply(rule: Rule, measured: Measured, at: datetime) -> int:
    """Decide on one rule's alerts and store it; how many began to fire or were resolved."""
    with transaction.atomic():
        mine = Rule.objects.filter(
            pk=rule.pk, changed_at=rule.changed_at, measured_at=rule.measured_at
        )
        if not mine.update(measured_at=at):
            return 0  # Another worker has evaluated the rule meanwhile, or somebody changed it.
        alerts = {
            alert.object: alert
            for alert in Alert.objects.select_for_update()
            .filter(rule=rule, state__in=ACTIVE)
            .order_by("id")
        }
        # Only now, with the alerts locked: a silence is committed together with what it notes on
        # the alerts that it covers, so none that covers one of these is missed or overwritten.
        silences = open_silences() if alerts else Silences(())
        samples = _worst(_of_topics(rule, measured.samples), alerts, rule.threshold)
        _begin(rule, [name for name in samples if name not in alerts], samples, at)
        limits = _limits_of(rule)
        outcome = _Outcome(rule, at)
        for name, alert in alerts.items():
            sample = samples.get(name)
            above = False if measured.complete and name not in measured.unknown else None
            if sample is not None:
                above = sample.value > rule.threshold
                alert.value, alert.detail = sample.value, sample.detail
            until = silences.until(rule.pk, name)
            known = _known(rule, alert, silenced=until is not None)
            outcome.take(alert, decide(limits, known, above=above, now=at), until)
        outcome.store()
        _note_samples(alerts, samples, at)
        notices.notify(outcome.told, at)
    return outcome.changed


class _Outcome:
    """What one evaluation of a rule has decided on its alerts, collected to be stored together.

    Attributes:
        changed: how many began to fire or were resolved.
        told: what people are to hear.
    """

    def __init__(self, rule: Rule, at: datetime) -> None:
        self._rule = rule
        self._at = at
        self._dropped: list[int] = []
        # Many alerts at once come to the same values; those cost one statement together.
        self._alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        self.changed = 0
        self.told: list[tuple[Alert, NoticeKind]] = []

    def take(self, alert: Alert, decision: Decision, silenced_until: datetime | None) -> None:
        """Note a decision on its alert."""
        if decision.step is Step.DROP:
            self._dropped.append(alert.pk)
            return
        before = _settled(alert)
        self.changed += _carry_out(self._rule, alert, decision, silenced_until, self._at)
        if (after := _settled(alert)) != before:
            self._alike[after].append(alert.pk)
        if decision.tell is not None:
            self.told.append((alert, decision.tell))

    def store(self) -> None:
        """Store all but the notices."""
        Alert.objects.filter(pk__in=self._dropped).delete()
        for values, ids in self._alike.items():
            fields = dict(zip(_FIELDS, values, strict=True))
            Alert.objects.filter(pk__in=ids).update(**fields)


def _limits_of(rule: Rule) -> Limits:
    """How long a rule waits, in the form that decisions take."""
    return Limits(
        hold=timedelta(milliseconds=rule.for_ms),
        clear=timedelta(milliseconds=rule.clear_ms),
        remind=timedelta(milliseconds=rule.remind_ms) if rule.remind_ms else None,
    )


def _of_topics(rule: Rule, samples: Mapping[str, Sample]) -> dict[str, Sample]:
    if rule.topics == "*":
        return dict(samples)
    return {
        name: sample
        for name, sample in samples.items()
        if not sample.topic or fnmatchcase(sample.topic, rule.topics)
    }


def _worst(
    samples: Mapping[str, Sample], alerts: Iterable[str], threshold: float
) -> dict[str, Sample]:
    """The objects that have an alert already, and the worst of the others above the threshold; at
    most :data:`MAX_OBJECTS` together, unless more have an alert."""
    known = {name: samples[name] for name in alerts if name in samples}
    new = [
        name for name, sample in samples.items() if sample.value > threshold and name not in known
    ]
    new.sort(key=lambda name: samples[name].value, reverse=True)
    room = max(0, MAX_OBJECTS - len(known))
    return known | {name: samples[name] for name in new[:room]}


def _begin(rule: Rule, objects: Sequence[str], samples: Mapping[str, Sample], at: datetime) -> None:
    Alert.objects.bulk_create(
        [
            Alert(
                rule=rule,
                rule_name=rule.name,
                kind=rule.kind,
                severity=rule.severity,
                threshold=rule.threshold,
                object=name,
                detail=samples[name].detail,
                value=samples[name].value,
                peak=samples[name].value,
                samples=[samples[name].value],
                pending_since=at,
                measured_at=at,
            )
            for name in objects
        ],
        ignore_conflicts=True,
    )


def _known(rule: Rule, alert: Alert, *, silenced: bool) -> Known:
    told = alert.notified_severity
    return Known(
        state=AlertState(alert.state),
        pending_since=alert.pending_since,
        clear_since=alert.clear_since,
        notified_at=alert.notified_at,
        worsened=bool(told) and Severity(rule.severity).rank > Severity(told).rank,
        acknowledged=alert.acknowledged_at is not None,
        silenced=silenced,
    )


#: The columns of an alert that an evaluation may change, besides its values.
_FIELDS = (
    *("state", "fired_at", "clear_since", "resolved_at", "resolution", "notified_at"),
    *("notified_severity", "silenced_until", "rule_name", "severity", "threshold"),
)


def _settled(alert: Alert) -> tuple[object, ...]:
    return tuple(getattr(alert, name) for name in _FIELDS)


def _carry_out(
    rule: Rule, alert: Alert, decision: Decision, until: datetime | None, at: datetime
) -> bool:
    """Note a decision on its alert; whether that began to fire or was resolved."""
    alert.clear_since, alert.silenced_until = decision.clear_since, until
    if decision.tell in (NoticeKind.FIRING, NoticeKind.REMINDER):
        alert.notified_at, alert.notified_severity = at, rule.severity
    if decision.step is Step.FIRE:
        alert.state, alert.fired_at = AlertState.FIRING, at
    if decision.step is Step.RESOLVE:
        alert.state, alert.resolved_at = AlertState.RESOLVED, at
        alert.resolution = "" if rule.enabled else "The rule was switched off."
    alert.rule_name, alert.severity, alert.threshold = rule.name, rule.severity, rule.threshold
    if decision.step in (Step.FIRE, Step.RESOLVE):
        _log.info("alert", alert=alert.pk, rule=rule.pk, object=alert.object, state=alert.state)
        return True
    return False


def _note_samples(alerts: Mapping[str, Alert], samples: Mapping[str, Sample], at: datetime) -> None:
    measured = [(alert.pk, samples[name]) for name, alert in alerts.items() if name in samples]
    with connection.cursor() as cursor:
        cursor.execute(
            _NOTE_SAMPLES,
            [
                SAMPLES,
                at,
                [pk for pk, _ in measured],
                [sample.value for _, sample in measured],
                [sample.detail for _, sample in measured],
            ],
        )

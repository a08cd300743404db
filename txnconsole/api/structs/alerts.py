"""Alerts, their rules and silences (docs/alerts.md)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from engine.model.moment import time_text
from txnconsole.alerts.handling import MAX_SILENCE_MS, MIN_SILENCE_MS
from txnconsole.alerts.kinds import KINDS, Kind, Severity, Unit
from txnconsole.alerts.models import Alert as StoredAlert
from txnconsole.alerts.models import Rule as StoredRule
from txnconsole.alerts.models import Silence as StoredSilence
from txnconsole.alerts.reading import Firing
from txnconsole.alerts.rules import MAX_SPAN_MS, MAX_THRESHOLD, RuleSettings
from txnconsole.api.structs.fields import (
    INT64_MAX,
    NO_NUL,
    Answer,
    Body,
    PageQuery,
    Reason,
    Text,
    Time,
    optional_time,
)

State = Literal["pending", "firing", "resolved"]
AlertName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=120, pattern=NO_NUL, examples=["Held back for long"])
]
ObjectText = Annotated[
    str,
    msgspec.Meta(max_length=1000, pattern=NO_NUL, examples=["partition:public/default/flights:0"]),
]
RowID = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX, examples=[7])]
SpanMs = Annotated[int, msgspec.Meta(ge=0, le=MAX_SPAN_MS)]


class ListAlerts(PageQuery):
    """Without ``state``: those that are pending or firing, and the history."""

    state: State | None = None
    rule: AlertName | None = None
    object: ObjectText | None = None


class Acknowledgement(Answer):
    """Who takes care of it, since when, and their note."""

    by: str
    at: Time | None
    note: str


class Alert(Answer):
    """``value``, ``peak`` and ``threshold`` are in ``unit``. ``id`` is null for the alert about
    silent workers, which is not stored; ``rule_id`` is null when the rule was deleted."""

    id: int | None
    rule_id: int | None
    rule: str
    kind: Kind
    severity: Severity
    object: ObjectText
    detail: str
    state: State
    value: float
    peak: float
    threshold: float
    unit: Unit
    samples: Annotated[
        list[float], msgspec.Meta(description="The last values, the newest at the end.")
    ]
    pending_since: Time
    fired_at: Time | None
    resolved_at: Time | None
    resolution: str
    silenced_until: Time | None
    acknowledgement: Acknowledgement | None

    @classmethod
    def of(cls, alert: StoredAlert) -> Alert:
        return cls(
            id=alert.pk,
            rule_id=alert.rule_id,
            rule=alert.rule_name,
            kind=Kind(alert.kind),
            severity=Severity(alert.severity),
            object=alert.object,
            detail=alert.detail,
            state=alert.state,  # type: ignore[arg-type]  # The column's choices.
            value=alert.value,
            peak=alert.peak,
            threshold=alert.threshold,
            unit=KINDS[Kind(alert.kind)].unit,
            samples=alert.samples,
            pending_since=time_text(alert.pending_since),
            fired_at=optional_time(alert.fired_at),
            resolved_at=optional_time(alert.resolved_at),
            resolution=alert.resolution,
            silenced_until=optional_time(alert.silenced_until),
            acknowledgement=_acknowledgement(alert),
        )

    @classmethod
    def unwritten(cls, one: Firing) -> Alert:
        """An alert that fires and is not stored."""
        return cls(
            id=None,
            rule_id=one.rule_id,
            rule=one.rule,
            kind=one.kind,
            severity=one.severity,
            object=one.object,
            detail=one.detail,
            state="firing",
            value=one.value,
            peak=one.value,
            threshold=one.threshold,
            unit=one.unit,
            samples=list(one.samples),
            pending_since=time_text(one.since),
            fired_at=time_text(one.since),
            resolved_at=None,
            resolution="",
            silenced_until=optional_time(one.silenced_until),
            acknowledgement=None,
        )


def _acknowledgement(alert: StoredAlert) -> Acknowledgement | None:
    if alert.acknowledged_at is None:
        return None
    return Acknowledgement(
        by=alert.acknowledged_by,
        at=optional_time(alert.acknowledged_at),
        note=alert.acknowledgement,
    )


class AlertPage(Answer):
    """``evaluated_at``: when a worker last evaluated all rules."""

    items: list[Alert]
    next_cursor: str | None
    evaluated_at: Time | None


class AcknowledgeAlert(Body):
    note: Text = ""


class PutAlertRule(Body):
    """An alert fires when an object's value has been above ``threshold`` for ``for_ms``, and is
    resolved when it has not been above for ``clear_ms``. People are reminded every ``remind_ms``
    (0: never). ``topics`` is a pattern, for kinds that are about topics."""

    name: AlertName
    kind: Kind
    threshold: Annotated[float, msgspec.Meta(ge=0, le=MAX_THRESHOLD, examples=[60000])]
    severity: Severity = Severity.WARNING
    topics: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=400, pattern=NO_NUL, examples=["public/default/*"]),
    ] = "*"
    for_ms: SpanMs = 0
    clear_ms: SpanMs = 15_000
    remind_ms: SpanMs = 14_400_000
    enabled: bool = True

    def settings(self) -> RuleSettings:
        return RuleSettings(**{name: getattr(self, name) for name in self.__struct_fields__})


class AlertRule(Answer):
    """``measures`` describes the value; ``firing`` is how many of its alerts fire now."""

    id: int
    name: str
    kind: Kind
    measures: str
    unit: Unit
    threshold: float
    severity: Severity
    topics: str
    for_ms: int
    clear_ms: int
    remind_ms: int
    enabled: bool
    firing: int
    created_at: Time
    changed_at: Time
    changed_by: str

    @classmethod
    def of(cls, rule: StoredRule, firing: int) -> AlertRule:
        terms = KINDS[Kind(rule.kind)]
        return cls(
            id=rule.pk,
            name=rule.name,
            kind=Kind(rule.kind),
            measures=terms.measures,
            unit=terms.unit,
            threshold=rule.threshold,
            severity=Severity(rule.severity),
            topics=rule.topics,
            for_ms=rule.for_ms,
            clear_ms=rule.clear_ms,
            remind_ms=rule.remind_ms,
            enabled=rule.enabled,
            firing=firing,
            created_at=time_text(rule.created_at),
            changed_at=time_text(rule.changed_at),
            changed_by=rule.changed_by,
        )


class AlertRulePage(Answer):
    items: list[AlertRule]
    next_cursor: str | None


class CreateAlertSilence(Body):
    """``rule_id`` null: alerts of any rule. ``objects_matching`` is a pattern with ``*``, ``?`` and
    ``[…]`` for the objects of alerts."""

    duration_ms: Annotated[
        int, msgspec.Meta(ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS, examples=[3_600_000])
    ]
    reason: Reason
    rule_id: RowID | None = None
    objects_matching: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=1000, pattern=NO_NUL, examples=["partition:public/default/*"]
        ),
    ] = "*"


class ListAlertSilences(PageQuery):
    """``open`` true: only those that hold now."""

    open: bool = False


class AlertSilence(Answer):
    id: int
    rule_id: int | None
    objects_matching: str
    reason: str
    until: Time
    created_at: Time
    created_by: str
    ended_at: Time | None
    ended_by: str

    @classmethod
    def of(cls, silence: StoredSilence) -> AlertSilence:
        return cls(
            id=silence.pk,
            rule_id=silence.rule_id,
            objects_matching=silence.objects_matching,
            reason=silence.reason,
            until=time_text(silence.until),
            created_at=time_text(silence.created_at),
            created_by=silence.created_by,
            ended_at=optional_time(silence.ended_at),
            ended_by=silence.ended_by,
        )


class AlertSilencePage(Answer):
    items: list[AlertSilence]
    next_cursor: str | None

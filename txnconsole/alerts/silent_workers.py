"""Storing that no worker evaluated the rules for a while: done by the first one that does again.

While there is no worker, nobody can store anything; until then ``reading`` tells whoever asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from txnconsole.alerts import notices
from txnconsole.alerts.kinds import Kind
from txnconsole.alerts.models import Alert, Evaluation, Rule
from txnconsole.alerts.silencing import Silences, open_silences
from txnconsole.alerts.states import AlertState, NoticeKind
from txnconsole.enginedb.clock import database_now

#: The object of alerts about silent workers.
WORKERS = "workers"
_RESOLUTION = "Workers evaluate the rules again."


def note_gap(seen: datetime, rules: Sequence[Rule]) -> None:
    """Store that all rules have been evaluated now, for the first time since ``seen``. When the gap
    is longer than a rule about silent workers allows, its alert is stored as resolved, and channels
    are told of it afterwards.

    When several workers come back at once, one of them does this: the one that moves the time of
    the last evaluation forward.
    """
    with transaction.atomic():
        now = database_now()
        if not Evaluation.objects.filter(at=seen).update(at=now):
            return
        gap_ms = (now - seen) / timedelta(milliseconds=1)
        broken = [
            rule
            for rule in rules
            if rule.kind == Kind.WORKER_SILENT and rule.enabled and gap_ms > rule.threshold
        ]
        silences = open_silences() if broken else Silences(())
        alerts = [_alert(rule, seen, now, gap_ms, silences) for rule in broken]
        notices.notify(
            [(alert, NoticeKind.RESOLVED) for alert in alerts if alert.silenced_until is None], now
        )


def _alert(rule: Rule, seen: datetime, now: datetime, gap_ms: float, silences: Silences) -> Alert:
    silenced = silences.until(rule.pk, WORKERS)
    return Alert.objects.create(
        rule=rule,
        rule_name=rule.name,
        kind=rule.kind,
        severity=rule.severity,
        threshold=rule.threshold,
        object=WORKERS,
        detail="Nothing was evaluated, and nothing sent, in between.",
        state=AlertState.RESOLVED,
        value=gap_ms,
        peak=gap_ms,
        samples=[gap_ms],
        pending_since=seen,
        fired_at=seen + timedelta(milliseconds=rule.threshold),
        resolved_at=now,
        resolution=_RESOLUTION,
        measured_at=now,
        notified_at=None if silenced else now,
        silenced_until=silenced,
    )

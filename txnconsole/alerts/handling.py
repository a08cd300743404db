"""What operators do about alerts: acknowledge and silence them, recorded in the audit log."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from txnconsole.alerts.errors import (
    AlertConflict,
    AlertNotFound,
    AlertSilenceNotFound,
    invalid,
)
from txnconsole.alerts.models import Alert, Silence
from txnconsole.alerts.rules import find_rule
from txnconsole.alerts.silencing import HOLDS, open_silences
from txnconsole.alerts.states import ACTIVE, AlertState
from txnconsole.audit.recording import Actor, Change, recorded_atomically
from txnconsole.enginedb.advisory_lock import advisory_lock

MIN_SILENCE_MS = 60_000
MAX_SILENCE_MS = 30 * 86_400_000
#: How many silences may be open at once: each alert is compared with all of them.
MAX_SILENCES = 500


def find_alert(alert_id: int) -> Alert:
    """The alert of a number.

    Raises:
        AlertNotFound: there is none of that number, or not any more.
    """
    alert = Alert.objects.filter(pk=alert_id).first()
    if alert is None:
        raise AlertNotFound(f"There is no alert {alert_id}, or not any more.")
    return alert


def acknowledge(actor: Actor, alert_id: int, note: str) -> Alert:
    """Say that somebody takes care of a firing alert: nobody is reminded of it any more. The first
    who acknowledges it is kept; acknowledging it again changes nothing.

    Raises:
        AlertNotFound: there is none of that number, or not any more.
        AlertConflict: it is not firing.
    """
    change = Change(actor, "alert.acknowledge", f"alert:{alert_id}", reason=note)
    with recorded_atomically(change) as recording:
        acknowledged = Alert.objects.filter(
            pk=alert_id, state=AlertState.FIRING, acknowledged_at=None
        ).update(acknowledged_at=Now(), acknowledged_by=actor.name, acknowledgement=note)
        alert = find_alert(alert_id)
        if not acknowledged and alert.state != AlertState.FIRING:
            raise AlertConflict(f"Alert {alert_id} is {alert.state}; only a firing one can be.")
        recording.after = {
            "rule": alert.rule_name,
            "object": alert.object,
            "acknowledged_by": alert.acknowledged_by,
        }
    return alert


def find_silence(silence_id: int) -> Silence:
    """The silence of a number.

    Raises:
        AlertSilenceNotFound: there is none of that number, or not any more.
    """
    silence = Silence.objects.filter(pk=silence_id).first()
    if silence is None:
        raise AlertSilenceNotFound(f"There is no silence {silence_id}, or not any more.")
    return silence


def silence(
    actor: Actor, *, rule_id: int | None, objects_matching: str, duration_ms: int, reason: str
) -> Silence:
    """Tell nobody, for a while, of the alerts of a rule (None: of any rule) whose object matches a
    pattern (``*``, ``?``, ``[…]``). It also covers alerts that fire already.

    Raises:
        AlertRuleNotFound: there is no such rule.
        InvalidRequest: a field has a value that it cannot have.
        AlertConflict: too many silences are open.
    """
    change = Change(actor, "alert.silence", "alert_silences", reason=reason)
    with recorded_atomically(change) as recording:
        if not MIN_SILENCE_MS <= duration_ms <= MAX_SILENCE_MS:
            raise invalid("duration_ms", "must be from a minute to 30 days")
        if not 0 < len(objects_matching) <= 1000 or not objects_matching.isprintable():
            raise invalid("objects_matching", "must be a pattern such as partition:public/*")
        if not reason.strip():
            raise invalid("reason", "must say why")
        advisory_lock("alert_silences")
        rule = None if rule_id is None else find_rule(rule_id, lock=True)
        if Silence.objects.filter(HOLDS).count() >= MAX_SILENCES:
            raise AlertConflict(f"{MAX_SILENCES} silences are open; end one first.")
        made = Silence.objects.create(
            rule=rule,
            objects_matching=objects_matching,
            until=Now() + timedelta(milliseconds=duration_ms),
            reason=reason.strip(),
            created_by=actor.name,
        )
        _update_silenced_until()
        recording.after = {
            "silence": made.pk,
            "rule": rule_id,
            "objects_matching": objects_matching,
            "duration_ms": duration_ms,
        }
        return find_silence(made.pk)


def end_silence(actor: Actor, silence_id: int) -> Silence:
    """End a silence now; people are told of what still fires at the next evaluation. Ending it
    again, or when its time is over, changes nothing.

    Raises:
        AlertSilenceNotFound: there is none of that number, or not any more.
    """
    change = Change(actor, "alert.unsilence", f"alert_silence:{silence_id}")
    with recorded_atomically(change) as recording:
        ended = Silence.objects.filter(HOLDS, pk=silence_id).update(
            ended_at=Now(), ended_by=actor.name
        )
        found = find_silence(silence_id)
        _update_silenced_until()
        recording.after = {"ended": bool(ended), "objects_matching": found.objects_matching}
    return found


def _update_silenced_until() -> None:
    """Note on each active alert until when it is silenced, as the next evaluation would."""
    active = Alert.objects.select_for_update().filter(Q(state__in=ACTIVE) & ~Q(rule=None))
    alerts = list(active.order_by("id"))
    silences = open_silences()  # Only now: another may have been made or ended beside this one.
    for alert in alerts:
        until = silences.until(alert.rule_id, alert.object)
        if until != alert.silenced_until:
            alert.silenced_until = until
            alert.save(update_fields=["silenced_until"])

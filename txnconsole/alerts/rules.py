"""Making, changing and deleting rules, recorded in the audit log."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now

from txnconsole.alerts import notices
from txnconsole.alerts.errors import AlertConflict, AlertRuleNotFound, invalid
from txnconsole.alerts.kinds import KINDS, Kind, Severity, Unit
from txnconsole.alerts.models import Alert, Rule
from txnconsole.alerts.naming import stored_name, unique_name
from txnconsole.alerts.states import ACTIVE, AlertState, NoticeKind
from txnconsole.alerts.versions import require_unchanged
from txnconsole.audit.recording import Actor, Change, recorded_atomically
from txnconsole.enginedb.advisory_lock import advisory_lock
from txnconsole.enginedb.clock import database_now

MAX_THRESHOLD = 1e12
#: The longest ``for_ms``, ``clear_ms`` and ``remind_ms``.
MAX_SPAN_MS = 7 * 86_400_000
#: The shortest ``remind_ms``.
MIN_REMIND_MS = 60_000
#: How many rules there may be: each is evaluated every few seconds.
MAX_RULES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """What a rule is to be; :class:`~txnconsole.alerts.models.Rule` tells what each field means."""

    name: str
    kind: Kind
    threshold: float
    severity: Severity
    topics: str = "*"
    for_ms: int = 0
    clear_ms: int = 15_000
    remind_ms: int = 4 * 3_600_000
    enabled: bool = True


def find_rule(rule_id: int, *, lock: bool = False) -> Rule:
    """The rule of a number, with the number of its alerts that fire (``firing``); with ``lock`` it
    is neither changed nor deleted until the surrounding SQL transaction ends, and without that
    number.

    Raises:
        AlertRuleNotFound: there is none of that number.
    """
    known = Rule.objects.select_for_update() if lock else with_firing()
    rule = known.filter(pk=rule_id).first()
    if rule is None:
        raise AlertRuleNotFound(f"There is no alert rule {rule_id}.")
    return rule


def with_firing() -> QuerySet[Rule]:
    """All rules, each with the number of its alerts that fire."""
    firing = Count("alerts", filter=Q(alerts__state=AlertState.FIRING))
    return Rule.objects.annotate(firing=firing)


def create_rule(actor: Actor, settings: RuleSettings) -> Rule:
    """Make a rule; it is evaluated within seconds.

    Raises:
        InvalidRequest: a field has a value that it cannot have.
        AlertConflict: the name is taken, or there are too many rules.
    """
    with recorded_atomically(Change(actor, "alert_rule.create", "alert_rules")) as recording:
        fields = _checked(settings)
        advisory_lock("alert_rules")
        if Rule.objects.count() >= MAX_RULES:
            raise AlertConflict(f"There are {MAX_RULES} rules already, as many as there may be.")
        with unique_name(settings.name):
            rule = Rule.objects.create(**fields, changed_by=actor.name)
        recording.after = {"rule": rule.pk, **_facts(rule)}
        return find_rule(rule.pk)


def change_rule(
    actor: Actor, rule_id: int, settings: RuleSettings, *, seen: str | None = None
) -> Rule:
    """Change a rule; the next evaluation judges its alerts by what it is then.

    Args:
        seen: the version that is to be replaced; None: whatever is there.

    Raises:
        AlertRuleNotFound: there is none of that number.
        AlertSettingsChanged: it is another version by now.
        InvalidRequest: a field has a value that it cannot have, or the kind would change.
        AlertConflict: the name is taken.
    """
    change = Change(actor, "alert_rule.change", f"alert_rule:{rule_id}")
    with recorded_atomically(change) as recording:
        rule = find_rule(rule_id, lock=True)
        recording.before = _facts(rule)
        require_unchanged(rule, seen)
        fields = _checked(settings)
        if settings.kind != rule.kind:
            raise invalid("kind", "cannot change; make another rule")
        with unique_name(settings.name):
            Rule.objects.filter(pk=rule_id).update(
                **fields, changed_at=Now(), changed_by=actor.name
            )
        rule = find_rule(rule_id)
        recording.after = _facts(rule)
    return rule


def delete_rule(actor: Actor, rule_id: int, reason: str = "") -> None:
    """Delete a rule with its silences. Its alerts are resolved, and stay in the history.

    Raises:
        AlertRuleNotFound: there is none of that number.
    """
    change = Change(actor, "alert_rule.delete", f"alert_rule:{rule_id}", reason=reason)
    with recorded_atomically(change) as recording:
        rule = find_rule(rule_id, lock=True)
        recording.before = _facts(rule)
        now = database_now()
        active = Alert.objects.select_for_update().filter(rule=rule, state__in=ACTIVE)
        told = []
        for alert in active.order_by("id"):
            if alert.state == AlertState.PENDING:
                alert.delete()
                continue
            alert.state, alert.resolved_at = AlertState.RESOLVED, now
            alert.resolution = "The rule was deleted."
            alert.save(update_fields=["state", "resolved_at", "resolution"])
            if alert.notified_at is not None:
                told.append((alert, NoticeKind.RESOLVED))
        notices.notify(told, now)
        rule.delete()


def _checked(settings: RuleSettings) -> dict[str, object]:
    """The columns of a rule with these settings; raises InvalidRequest for a bad value."""
    terms = KINDS[settings.kind]
    name = stored_name(settings.name)
    if not math.isfinite(settings.threshold) or not 0 <= settings.threshold <= MAX_THRESHOLD:
        raise invalid("threshold", "must be a number from 0 on")
    if terms.unit is Unit.PERCENT and settings.threshold >= 100 and not _may_pass(settings.kind):
        raise invalid("threshold", "must be below 100 %, which nothing passes")
    if settings.topics != "*" and not terms.by_topic:
        raise invalid("topics", f"must be *: {terms.title} is not about a topic")
    if not 0 < len(settings.topics) <= 400 or not settings.topics.isprintable():
        raise invalid("topics", "must be a pattern such as public/default/*")
    for span in ("for_ms", "clear_ms", "remind_ms"):
        if not 0 <= getattr(settings, span) <= MAX_SPAN_MS:
            raise invalid(span, "must be from 0 to seven days")
    if 0 < settings.remind_ms < MIN_REMIND_MS:
        raise invalid("remind_ms", "must be 0 (never) or a minute at least")
    return asdict(settings) | {
        "name": name,
        "kind": settings.kind.value,
        "severity": settings.severity.value,
    }


def _may_pass(kind: Kind) -> bool:
    """Whether values of the kind may be 100 % and more: a blocker's may, when nobody expires it."""
    return kind is Kind.BLOCKER_TIMEOUT


def _facts(rule: Rule) -> dict[str, object]:
    names = ("name", "kind", "topics", "threshold", "for_ms", "clear_ms", "remind_ms", "severity")
    return {name: getattr(rule, name) for name in (*names, "enabled")}

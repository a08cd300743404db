"""Making, finding and deleting masking rules, recorded in the audit log, for the REST API and the
console.

Every attempt has its entry, in one SQL transaction with the change. Permissions are checked before,
by the callers.
"""

from __future__ import annotations

from engine.model.errors import InvalidRequest
from txnconsole.access.errors import MaskingRuleNotFound
from txnconsole.access.masking import ANYWHERE, Effect, Part
from txnconsole.access.models import MaskingRule
from txnconsole.audit.recording import Actor, Change, recorded_atomically
from txnconsole.enginedb.advisory_lock import advisory_lock

#: All rules are checked for each message that a viewer reads.
MAX_MASKING_RULES = 100


def add_masking_rule(
    actor: Actor, *, topics: str, part: Part, name: str, effect: Effect
) -> MaskingRule:
    """Mask something for viewers from now on.

    Raises:
        InvalidRequest: the rule names nothing, or there are :data:`MAX_MASKING_RULES` already.
    """
    with recorded_atomically(Change(actor, "masking.create", f"topics:{topics}")) as recording:
        _check_name(part, name)
        advisory_lock("masking_rules")
        if MaskingRule.objects.count() >= MAX_MASKING_RULES:
            raise InvalidRequest(
                f"There are {MAX_MASKING_RULES} masking rules; delete one first.", field=""
            )
        rule = MaskingRule.objects.create(
            topics=topics, part=part, name=name, effect=effect, created_by=actor.name
        )
        rule.refresh_from_db()  # The database has given it its time.
        recording.after = {"rule": rule.pk, "part": part, "name": name, "effect": effect}
    return rule


def find_masking_rule(rule_id: int, *, lock: bool = False) -> MaskingRule:
    """The rule of that number.

    Raises:
        MaskingRuleNotFound: there is none, or not any more.
    """
    rules = MaskingRule.objects.select_for_update() if lock else MaskingRule.objects.all()
    rule = rules.filter(pk=rule_id).first()
    if rule is None:
        raise MaskingRuleNotFound(f"There is no masking rule {rule_id}.")
    return rule


def delete_masking_rule(actor: Actor, rule_id: int, reason: str = "") -> None:
    """Show viewers again what the rule has masked.

    Raises:
        MaskingRuleNotFound: there is none of that number, or not any more.
    """
    change = Change(actor, "masking.delete", f"masking_rule:{rule_id}", reason)
    with recorded_atomically(change) as recording:
        rule = find_masking_rule(rule_id, lock=True)
        recording.before = {
            "topics": rule.topics,
            "rule": rule.pk,
            "part": rule.part,
            "name": rule.name,
            "effect": rule.effect,
        }
        rule.delete()


def _check_name(part: Part, name: str) -> None:
    named = part in {Part.FIELD, Part.PROPERTY}
    if named is not bool(name):
        raise InvalidRequest(
            f"Name the {part} that is masked." if named else f"A rule of the {part} has no name.",
            field="name",
        )
    levels = name.split(".")
    if part is Part.FIELD and ("" in levels or levels[-1] == ANYWHERE):
        raise InvalidRequest("Write a path as card.number, items.*.iban or **.iban.", field="name")

"""Who may read the contents of messages: one rule for the REST API and the console.

Consumers, operators and admins read everything. Viewers read payloads only of topics that match a
pattern of ``TXNCONSOLE_VIEWER_PAYLOADS`` (none by default), and of everything that they read (also
keys and properties) only what administrators' rules (:mod:`txnconsole.access.masking`) leave.
Whoever may not read messages (producers) sees only their positions.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from engine.model.message import StoredMessage
from engine.model.topic_name import TopicName
from txnconsole.access.masking import Effect, Part, Rule, Shown, apply
from txnconsole.access.models import MaskingRule
from txnconsole.access.principal import Principal, matches
from txnconsole.access.roles import Permission


@dataclass(frozen=True, slots=True)
class Sight:
    """What somebody may see of the messages of one topic."""

    payloads: bool
    rules: tuple[Rule, ...] = ()

    def shown(self, message: StoredMessage) -> Shown:
        if self.payloads and not self.rules:
            return Shown(message, payload=True, masked=False)
        return apply(message, self.rules, payload=self.payloads)


EVERYTHING = Sight(payloads=True)
_NOTHING = Sight(
    payloads=False,
    rules=(Rule(Part.KEY, "", Effect.REMOVE), Rule(Part.PROPERTY, "*", Effect.REMOVE)),
)


def sight_of(principal: Principal, topic: TopicName) -> Sight:
    """What the principal may see of the topic's messages."""
    if principal.may(Permission.PAYLOAD_READ):
        return EVERYTHING
    if not principal.may(Permission.MESSAGE_READ):
        return _NOTHING
    is_open = matches(tuple(settings.VIEWER_PAYLOADS), str(topic))
    return Sight(is_open, _rules_of(topic))


def sight_in_common(topic: TopicName, *, reads_messages: bool) -> Sight:
    """What everybody may see of the topic's messages who may read messages, or everybody who may
    not; for data that is made once and shown to many."""
    return Sight(payloads=False, rules=_rules_of(topic)) if reads_messages else _NOTHING


def _rules_of(topic: TopicName) -> tuple[Rule, ...]:
    """The rules whose patterns match the topic, in the order in which they were made."""
    return tuple(
        Rule(Part(one.part), one.name, Effect(one.effect))
        for one in MaskingRule.objects.order_by("id")
        if matches((one.topics,), str(topic))
    )

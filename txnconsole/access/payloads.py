"""Who may read what messages carry: one rule for the REST API and the console.

Consumers, operators and admins read payloads. Viewers read everything else of a message, and the
payloads of topics that match a pattern of ``TXNCONSOLE_VIEWER_PAYLOADS`` (none by default). Keys
and properties are not masked: do not put secrets there.
"""

from __future__ import annotations

from django.conf import settings

from engine.model.topic_name import TopicName
from txnconsole.access.principal import Principal, matches
from txnconsole.access.roles import Permission


def may_read_payloads(principal: Principal, topic: TopicName | None = None) -> bool:
    """Whether the principal may read the payloads of a topic, or without one of any topic."""
    if principal.may(Permission.PAYLOAD_READ):
        return True
    if topic is None or not principal.may(Permission.MESSAGE_READ):
        return False
    return matches(tuple(settings.TXNCONSOLE_VIEWER_PAYLOADS), str(topic))

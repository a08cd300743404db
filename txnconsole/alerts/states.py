"""The states of alerts and messages, and what a notice can say."""

from __future__ import annotations

from django.db.models import TextChoices


class AlertState(TextChoices):
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


#: A rule has at most one alert in these states for each object.
ACTIVE = (AlertState.PENDING, AlertState.FIRING)


class ChannelKind(TextChoices):
    EMAIL = "email"
    WEBHOOK = "webhook"


class MessageState(TextChoices):
    QUEUED = "queued"
    SENT = "sent"
    DEAD = "dead"


class NoticeKind(TextChoices):
    FIRING = "firing"
    REMINDER = "reminder"
    RESOLVED = "resolved"

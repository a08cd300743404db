"""Rules, alerts, silences, channels and what is sent; see the package for what they promise."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from txnconsole.alerts.kinds import KINDS, Severity
from txnconsole.alerts.states import AlertState, ChannelKind, MessageState, NoticeKind

_KINDS = [(kind.value, terms.title) for kind, terms in KINDS.items()]
_SEVERITIES = [(severity.value, severity.value.capitalize()) for severity in Severity]


class Rule(models.Model):
    """When an object is above ``threshold`` for ``for_ms`` it fires, until it has been at or below
    it for ``clear_ms``; people are reminded every ``remind_ms`` (0: never)."""

    name = models.CharField(max_length=120, unique=True)
    kind = models.CharField(max_length=32, choices=_KINDS)
    #: A pattern of topics (``*``, ``?``, ``[…]``), for kinds that are about one.
    topics = models.CharField(max_length=400, default="*")
    threshold = models.FloatField()
    for_ms = models.BigIntegerField(default=0)
    clear_ms = models.BigIntegerField(default=15_000)
    remind_ms = models.BigIntegerField(default=4 * 3_600_000)
    severity = models.CharField(max_length=16, choices=_SEVERITIES)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    changed_by = models.TextField(default="")
    #: When what was last decided on had been measured.
    measured_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"rule {self.name!r}"


class Alert(models.Model):
    """One object that a rule is about. What the rule was when it fired is kept with it."""

    rule = models.ForeignKey(Rule, null=True, on_delete=models.SET_NULL, related_name="alerts")
    rule_name = models.CharField(max_length=120)
    kind = models.CharField(max_length=32, choices=_KINDS)
    severity = models.CharField(max_length=16, choices=_SEVERITIES)
    threshold = models.FloatField()
    #: As the audit log names objects: ``partition:public/default/flights:0``.
    object = models.TextField()
    detail = models.TextField(default="")
    state = models.CharField(max_length=16, choices=AlertState, default=AlertState.PENDING)
    value = models.FloatField()
    peak = models.FloatField()
    #: The last values, the newest at the end.
    samples = ArrayField(models.FloatField(), default=list)

    pending_since = models.DateTimeField()
    fired_at = models.DateTimeField(null=True)
    clear_since = models.DateTimeField(null=True)
    resolved_at = models.DateTimeField(null=True)
    resolution = models.TextField(default="")
    measured_at = models.DateTimeField()
    notified_at = models.DateTimeField(null=True)
    silenced_until = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.TextField(default="")
    acknowledgement = models.TextField(default="")

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["rule", "object"],
                condition=Q(state__in=["pending", "firing"]),
                name="alert_active",
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "-id"], name="alert_by_state"),
            models.Index(fields=["rule_name", "-id"], name="alert_by_rule"),
            models.Index(fields=["object", "-id"], name="alert_by_object"),
            models.Index(
                fields=["resolved_at"], name="alert_resolved", condition=Q(state="resolved")
            ),
        ]

    def __str__(self) -> str:
        return f"alert {self.pk}: {self.rule_name} of {self.object} is {self.state}"


class Silence(models.Model):
    """Alerts of a rule (or of any) whose object matches a pattern are told nobody until then."""

    rule = models.ForeignKey(Rule, null=True, on_delete=models.CASCADE, related_name="silences")
    objects_matching = models.TextField(default="*")
    until = models.DateTimeField()
    reason = models.TextField()
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField()
    ended_at = models.DateTimeField(null=True)
    ended_by = models.TextField(default="")

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["until"], name="silence_open", condition=Q(ended_at=None))
        ]

    def __str__(self) -> str:
        return f"silence {self.pk} of {self.objects_matching}"


class Channel(models.Model):
    """Where messages go. ``url`` and ``secret`` are nobody's to read again."""

    name = models.CharField(max_length=120, unique=True)
    kind = models.CharField(max_length=16, choices=ChannelKind)
    recipients = ArrayField(models.TextField(), default=list)
    url = models.TextField(default="")
    secret = models.TextField(default="")
    min_severity = models.CharField(max_length=16, choices=_SEVERITIES, default=Severity.INFO.value)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    changed_by = models.TextField(default="")

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"channel {self.name!r}"


class Message(models.Model):
    """Something to be sent to a channel; ``content`` never changes."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="messages")
    content = models.JSONField()
    state = models.CharField(max_length=16, choices=MessageState, default=MessageState.QUEUED)
    attempts = models.IntegerField(default=0)
    next_attempt_at = models.DateTimeField(db_default=Now())
    lease = models.BigIntegerField(default=0)
    leased_until = models.DateTimeField(null=True)
    last_error = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(
                F("next_attempt_at"), "id", name="message_queued", condition=Q(state="queued")
            ),
            models.Index(fields=["channel", "-id"], name="message_by_channel"),
            models.Index(fields=["ended_at"], name="message_ended", condition=~Q(state="queued")),
        ]

    def __str__(self) -> str:
        return f"message {self.pk} to channel {self.channel_id} is {self.state}"


class Notice(models.Model):
    """That a channel is to hear of an alert; bundled into a message a little later."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="notices")
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=16, choices=NoticeKind)
    value = models.FloatField()
    at = models.DateTimeField()
    message = models.ForeignKey(
        Message, null=True, on_delete=models.SET_NULL, related_name="notices"
    )

    class Meta:
        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            models.Index(fields=["channel", "id"], name="notice_waiting", condition=Q(message=None))
        ]

    def __str__(self) -> str:
        return f"notice {self.pk}: alert {self.alert_id} is {self.kind}"


class Evaluation(models.Model):
    """One row: when a worker last went through all rules."""

    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"evaluated at {self.at}"

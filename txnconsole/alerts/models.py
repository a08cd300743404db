"""Rules, alerts, silences, channels, notices and messages (invariants: the package)."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from txnconsole.alerts.kinds import KINDS, SEVERITIES, Severity
from txnconsole.alerts.states import AlertState, ChannelKind, MessageState, NoticeKind

_KINDS = [(kind.value, terms.title) for kind, terms in KINDS.items()]


class Rule(models.Model):
    """An alert fires when an object's value has been above ``threshold`` for ``for_ms``, and is
    resolved when it has not been above for ``clear_ms``. While it fires, people are reminded every
    ``remind_ms`` (0: never). The threshold is in the kind's unit.
    """

    name = models.CharField(max_length=120, unique=True)
    kind = models.CharField(max_length=32, choices=_KINDS)
    #: Only topics that match this pattern (``*``, ``?``, ``[…]``); for kinds that are about topics.
    topics = models.CharField(max_length=400, default="*")
    threshold = models.FloatField()
    for_ms = models.BigIntegerField(default=0)
    clear_ms = models.BigIntegerField(default=15_000)
    remind_ms = models.BigIntegerField(default=4 * 3_600_000)
    severity = models.CharField(max_length=16, choices=SEVERITIES)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    changed_by = models.TextField(default="")
    #: The time of the measurement that was last decided on (see ``evaluating``).
    measured_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"rule {self.name!r}"


class Alert(models.Model):
    """An object whose value is, or was, above a rule's threshold.

    It keeps a copy of the rule's name, kind, severity and threshold, so that the history can be
    read after the rule has been changed or deleted.
    """

    rule = models.ForeignKey(Rule, null=True, on_delete=models.SET_NULL, related_name="alerts")
    rule_name = models.CharField(max_length=120)
    kind = models.CharField(max_length=32, choices=_KINDS)
    severity = models.CharField(max_length=16, choices=SEVERITIES)
    threshold = models.FloatField()
    #: Named as in the audit log: ``partition:public/default/flights:0``.
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
    #: The severity that people were told then.
    notified_severity = models.CharField(max_length=16, default="", db_default="")
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
    """Alerts of a rule (or of any) whose object matches a pattern are not told until a time."""

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
    """Where messages go. ``url`` and ``secret`` are never shown again. ``failed_at`` is when the
    last attempt to send a message failed; None when it arrived."""

    name = models.CharField(max_length=120, unique=True)
    kind = models.CharField(max_length=16, choices=ChannelKind)
    recipients = ArrayField(models.TextField(), default=list)
    url = models.TextField(default="")
    secret = models.TextField(default="")
    min_severity = models.CharField(max_length=16, choices=SEVERITIES, default=Severity.INFO.value)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    changed_by = models.TextField(default="")
    failed_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"channel {self.name!r}"


class Message(models.Model):
    """What is to be sent to a channel. ``content`` never changes; ``lease`` counts its claims."""

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
    """A channel is to be told of an alert; a little later, notices are bundled into a message."""

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
    """The time when a worker last evaluated all rules; a single row."""

    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"evaluated at {self.at}"

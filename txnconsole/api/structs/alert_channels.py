"""Alert channels, and what was sent there (docs/alerts.md)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from engine.model.moment import time_text
from txnconsole.alerts.addresses import MAX_URL
from txnconsole.alerts.channels import MAX_RECIPIENTS, ChannelSettings, shown_target
from txnconsole.alerts.kinds import Severity
from txnconsole.alerts.models import Channel as StoredChannel
from txnconsole.alerts.models import Message as StoredMessage
from txnconsole.alerts.states import ChannelKind
from txnconsole.api.structs.alerts import AlertName
from txnconsole.api.structs.fields import (
    NO_NUL,
    Answer,
    Body,
    PageQuery,
    Time,
    optional_time,
)

_Kind = Literal["email", "webhook"]
_State = Literal["queued", "sent", "dead"]


class PutAlertChannel(Body):
    """An e-mail channel has ``recipients``, a webhook a ``url``, which may be left out when it is
    changed. Both get alerts of ``min_severity`` and worse."""

    name: AlertName
    kind: _Kind
    recipients: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=3, max_length=254, pattern=NO_NUL)]],
        msgspec.Meta(max_length=MAX_RECIPIENTS, examples=[["ops@example.com"]]),
    ] = msgspec.field(default_factory=list)
    url: (
        Annotated[
            str,
            msgspec.Meta(
                min_length=1,
                max_length=MAX_URL,
                pattern=NO_NUL,
                examples=["https://hooks.example.com/services/T0/B0"],
            ),
        ]
        | None
    ) = None
    min_severity: Severity = Severity.INFO
    enabled: bool = True

    def settings(self) -> ChannelSettings:
        return ChannelSettings(
            name=self.name,
            kind=ChannelKind(self.kind),
            recipients=tuple(self.recipients),
            url=self.url,
            min_severity=self.min_severity,
            enabled=self.enabled,
        )


class AlertChannel(Answer):
    """``target`` is where it leads: the recipients, or a webhook's host. The rest of a webhook's
    URL is never shown."""

    id: int
    name: str
    kind: _Kind
    target: Annotated[str, msgspec.Meta(examples=["https://hooks.example.com/…"])]
    recipients: list[str]
    min_severity: Severity
    enabled: bool
    created_at: Time
    changed_at: Time
    changed_by: str

    @classmethod
    def of(cls, channel: StoredChannel) -> AlertChannel:
        return cls(
            id=channel.pk,
            name=channel.name,
            kind=channel.kind,  # type: ignore[arg-type]  # The column's choices.
            target=shown_target(channel),
            recipients=channel.recipients,
            min_severity=Severity(channel.min_severity),
            enabled=channel.enabled,
            created_at=time_text(channel.created_at),
            changed_at=time_text(channel.changed_at),
            changed_by=channel.changed_by,
        )


class AlertChannelPage(Answer):
    items: list[AlertChannel]
    next_cursor: str | None


class MadeAlertChannel(Answer):
    """``secret`` signs what a webhook gets. It is shown only in this answer. It is null for e-mail,
    and in an answer that is repeated under an `Idempotency-Key`: then renew it."""

    channel: AlertChannel
    secret: str | None

    @classmethod
    def of(cls, channel: StoredChannel) -> MadeAlertChannel:
        return cls(channel=AlertChannel.of(channel), secret=channel.secret or None)


class ListAlertMessages(PageQuery):
    state: _State | None = None


class AlertMessage(Answer):
    """``last_error`` is why the last attempt failed. After twelve attempts a message is
    ``dead``."""

    id: int
    state: _State
    subject: str
    attempts: int
    last_error: str
    created_at: Time
    next_attempt_at: Time | None
    ended_at: Time | None

    @classmethod
    def of(cls, message: StoredMessage) -> AlertMessage:
        waits = message.state == "queued"
        return cls(
            id=message.pk,
            state=message.state,  # type: ignore[arg-type]  # The column's choices.
            subject=message.content["subject"],
            attempts=message.attempts,
            last_error=message.last_error,
            created_at=time_text(message.created_at),
            next_attempt_at=time_text(message.next_attempt_at) if waits else None,
            ended_at=optional_time(message.ended_at),
        )


class AlertMessagePage(Answer):
    items: list[AlertMessage]
    next_cursor: str | None

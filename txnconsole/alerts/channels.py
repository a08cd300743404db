"""Making, changing, testing and deleting channels, recorded in the audit log without secrets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models.functions import Now

from engine.postgres import deadlines
from txnconsole.alerts.addresses import Target
from txnconsole.alerts.composing import compose_test
from txnconsole.alerts.delivering import attempt, claim, send_again
from txnconsole.alerts.errors import (
    AlertChannelNotFound,
    AlertConflict,
    AlertMessageNotFound,
    invalid,
)
from txnconsole.alerts.kinds import Severity
from txnconsole.alerts.models import Channel, Message
from txnconsole.alerts.naming import stored_name, unique_name
from txnconsole.alerts.signing import new_secret
from txnconsole.alerts.states import ChannelKind
from txnconsole.alerts.versions import require_unchanged
from txnconsole.audit.recording import Actor, Change, recorded, recorded_atomically
from txnconsole.enginedb.advisory_lock import advisory_lock

MAX_RECIPIENTS = 50
MAX_CHANNELS = 100
#: A test message is sent at once by whoever asks for it. It becomes due for workers only so much
#: later, so that none of them sends it first.
_TEST_LATER = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """What a channel is to be.

    A channel has ``recipients`` (e-mail addresses) or a ``url``, as its ``kind`` says. When a
    webhook is changed, ``url`` None leaves its URL as it is. Alerts below ``min_severity`` are not
    told to the channel.
    """

    name: str
    kind: ChannelKind
    recipients: tuple[str, ...] = ()
    url: str | None = None
    min_severity: Severity = Severity.INFO
    enabled: bool = True


def find_channel(channel_id: int, *, lock: bool = False) -> Channel:
    """The channel of a number; with ``lock`` nobody else changes it until the surrounding SQL
    transaction ends.

    Raises:
        AlertChannelNotFound: there is none of that number.
    """
    known = Channel.objects.select_for_update() if lock else Channel.objects
    channel = known.filter(pk=channel_id).first()
    if channel is None:
        raise AlertChannelNotFound(f"There is no alert channel {channel_id}.")
    return channel


def create_channel(actor: Actor, settings: ChannelSettings) -> Channel:
    """Make a channel. A webhook gets a secret; only this answer has it, it is never shown again.

    Raises:
        InvalidRequest: a field has a value that it cannot have.
        AlertConflict: the name is taken, or there are too many channels.
    """
    change = Change(actor, "alert_channel.create", "alert_channels")
    with recorded_atomically(change) as recording:
        fields = _checked(settings)
        if settings.kind is ChannelKind.WEBHOOK:
            if settings.url is None:
                raise invalid("url", "is missing")
            fields["secret"] = new_secret()
        advisory_lock("alert_channels")
        if Channel.objects.count() >= MAX_CHANNELS:
            raise AlertConflict(f"There are {MAX_CHANNELS} channels already.")
        with unique_name(settings.name):
            channel = Channel.objects.create(**fields, changed_by=actor.name)
        recording.after = {"channel": channel.pk, **_facts(channel)}
        return find_channel(channel.pk)


def change_channel(
    actor: Actor, channel_id: int, settings: ChannelSettings, *, seen: str | None = None
) -> Channel:
    """Change a channel. Messages that are still queued go to its new address.

    Args:
        seen: the version that is to be replaced; None: whatever is there.

    Raises:
        AlertChannelNotFound: there is none of that number.
        AlertSettingsChanged: it is another version by now.
        InvalidRequest: a field has a value that it cannot have, or the kind would change.
        AlertConflict: the name is taken.
    """
    change = Change(actor, "alert_channel.change", f"alert_channel:{channel_id}")
    with recorded_atomically(change) as recording:
        channel = find_channel(channel_id, lock=True)
        recording.before = _facts(channel)
        require_unchanged(channel, seen)
        fields = _checked(settings)
        if settings.kind != channel.kind:
            raise invalid("kind", "cannot change; make another channel")
        with unique_name(settings.name):
            Channel.objects.filter(pk=channel_id).update(
                **fields, changed_at=Now(), changed_by=actor.name
            )
        changed = find_channel(channel_id)
        recording.after = {**_facts(changed), "url_changed": changed.url != channel.url}
    return changed


def renew_secret(actor: Actor, channel_id: int, reason: str = "") -> Channel:
    """Give a webhook a new secret, which signs from the next message on. Only this answer has it.

    Raises:
        AlertChannelNotFound: there is none of that number.
        AlertConflict: it is not a webhook.
    """
    change = Change(
        actor, "alert_channel.renew_secret", f"alert_channel:{channel_id}", reason=reason
    )
    with recorded_atomically(change):
        channel = find_channel(channel_id, lock=True)
        if channel.kind != ChannelKind.WEBHOOK:
            raise AlertConflict("An e-mail channel has no secret.")
        channel.secret = new_secret()
        channel.save(update_fields=["secret"])
    return channel


def delete_channel(actor: Actor, channel_id: int, reason: str = "") -> None:
    """Delete a channel with its messages; those that are still queued are not sent.

    Raises:
        AlertChannelNotFound: there is none of that number.
    """
    change = Change(actor, "alert_channel.delete", f"alert_channel:{channel_id}", reason=reason)
    with recorded_atomically(change) as recording:
        channel = find_channel(channel_id, lock=True)
        recording.before = _facts(channel)
        channel.delete()


def send_test(actor: Actor, channel_id: int) -> Message:
    """Send a test message now, in one attempt of at most ten seconds; the message that is returned
    tells whether it arrived.

    Raises:
        AlertChannelNotFound: there is none of that number, or not any more.
    """
    change = Change(actor, "alert_channel.test", f"alert_channel:{channel_id}")
    with recorded(change) as recording:
        with transaction.atomic():
            channel = find_channel(channel_id, lock=True)
            made = Message.objects.create(
                channel=channel,
                content=compose_test(channel.name, actor.name, django_settings.PUBLIC_URL),
                next_attempt_at=Now() + _TEST_LATER,
            )
        claimed = claim(made.pk)
        with deadlines.lifted():  # A slow receiver may use up the request's deadline.
            if claimed is not None:
                attempt(claimed, once=True)
            message = Message.objects.filter(pk=made.pk).first()
        if message is None:
            raise AlertChannelNotFound(f"Alert channel {channel_id} was deleted meanwhile.")
        recording.after = {"state": message.state, "error": message.last_error}
    return message


def resend(actor: Actor, channel_id: int, message_id: int) -> Message:
    """Queue a message that was given up once more, with as many attempts as a new one.

    Raises:
        AlertChannelNotFound, AlertMessageNotFound: there is none of that number.
        AlertConflict: the message is not dead.
    """
    change = Change(actor, "alert_message.resend", f"alert_message:{message_id}")
    with recorded_atomically(change):
        message = Message.objects.filter(pk=message_id, channel=find_channel(channel_id)).first()
        if message is None:
            raise AlertMessageNotFound(f"Channel {channel_id} has no message {message_id}.")
        if not send_again(message):
            raise AlertConflict(f"Message {message_id} is {message.state}; only a dead one can be.")
        message.refresh_from_db()
    return message


def shown_target(channel: Channel) -> str:
    """Where a channel leads, without the part that may be secret."""
    if channel.kind == ChannelKind.EMAIL:
        return ", ".join(channel.recipients)
    return Target.parse(channel.url).shown


def _checked(settings: ChannelSettings) -> dict[str, object]:
    """The columns of a channel with these settings; raises InvalidRequest for a bad value."""
    fields: dict[str, object] = {
        "name": stored_name(settings.name),
        "kind": settings.kind.value,
        "min_severity": settings.min_severity.value,
        "enabled": settings.enabled,
    }
    if settings.kind is ChannelKind.EMAIL:
        return fields | {"recipients": _recipients(settings)}
    if settings.recipients:
        raise invalid("recipients", "must be empty: a webhook has a url")
    if settings.url is not None:
        Target.parse(settings.url)
        fields["url"] = settings.url
    return fields


def _recipients(settings: ChannelSettings) -> list[str]:
    if settings.url is not None:
        raise invalid("url", "must be left out: an e-mail channel has recipients")
    if not 1 <= len(settings.recipients) <= MAX_RECIPIENTS:
        raise invalid("recipients", f"must be 1 to {MAX_RECIPIENTS} addresses")
    for recipient in settings.recipients:
        try:
            validate_email(recipient)
        except ValidationError as error:
            raise invalid(
                "recipients", f"names {recipient[:80]!r}, which is no e-mail address"
            ) from error
    return list(dict.fromkeys(settings.recipients))


def _facts(channel: Channel) -> dict[str, object]:
    return {
        "name": channel.name,
        "kind": channel.kind,
        "target": shown_target(channel),
        "min_severity": channel.min_severity,
        "enabled": channel.enabled,
    }

"""Sending messages until they arrive or are given up (invariants: the package).

All workers together send one message at a time, so a receiver that is slow to answer keeps one
worker from its other work, never all of them. So that it does not keep other receivers waiting
either, channels whose last message has arrived come first, then the others in turn.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from txnconsole.alerts import mail, webhook
from txnconsole.alerts.errors import DeliveryFailed
from txnconsole.alerts.models import Channel, Evaluation, Message
from txnconsole.alerts.states import ChannelKind, MessageState

#: Attempts until a message is given up; with their pauses, half an hour to an hour.
MAX_ATTEMPTS = 12
#: For how long a message belongs to the worker that claimed it; longer than any attempt takes.
LEASE = timedelta(seconds=60)
_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 900.0
#: After so long a task takes no further message, so that other tasks get their turn.
_SLICE_SECONDS = 10.0
_log = structlog.get_logger(__name__)

_SEND: Mapping[str, Callable[[Message], None]] = {
    ChannelKind.EMAIL: mail.send,
    ChannelKind.WEBHOOK: webhook.send,
}


def deliver() -> int:
    """Send the messages that are due, one after the other, for about ten seconds.

    Returns:
        How many have arrived.
    """
    arrived = 0
    give_up = time.monotonic() + _SLICE_SECONDS
    while time.monotonic() < give_up and (message := _claim()) is not None:
        arrived += attempt(message)
    return arrived


def attempt(message: Message, *, once: bool = False) -> bool:
    """Send a message that was claimed, and store the outcome.

    Args:
        once: give the message up when this attempt fails.

    Returns:
        Whether it has arrived.
    """
    try:
        _SEND[message.channel.kind](message)
    except DeliveryFailed as error:
        _failed(message, str(error), once=once)
        return False
    except Exception as error:  # Whatever it is, the message must not stay claimed.
        _log.exception("alert message not sent", message=message.pk, channel=message.channel_id)
        _failed(message, type(error).__name__, once=once)
        return False
    Channel.objects.filter(pk=message.channel_id).exclude(failed_at=None).update(failed_at=None)
    _store_outcome(
        message, state=MessageState.SENT, ended_at=Now(), last_error="", leased_until=None
    )
    _log.info("alert message sent", message=message.pk, channel=message.channel_id)
    return True


def claim(message_id: int) -> Message | None:
    """Claim one message now, even if it is not due or its channel is disabled; None when another
    has claimed it or it is not queued."""
    return _claim(Q(pk=message_id))


def pause_seconds(attempts: int, jitter: float) -> float:
    """How long to wait after so many attempts: twice as long after each, up to a limit.

    A ``jitter`` from 0 to 1 takes up to half of it away, so that a receiver that comes back does
    not get all messages at once.
    """
    longest: float = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 20))
    return longest * (0.5 + jitter / 2)


def _claim(which: Q | None = None) -> Message | None:
    due = which or Q(next_attempt_at__lte=Now(), channel__enabled=True)
    with transaction.atomic():
        if which is None and _is_somebody_sending():
            return None
        message = (
            Message.objects.select_for_update(skip_locked=True, of=("self",))
            .select_related("channel")
            .filter(due, state=MessageState.QUEUED)
            .filter(Q(leased_until=None) | Q(leased_until__lte=Now()))
            .order_by(F("channel__failed_at").asc(nulls_first=True), "next_attempt_at", "id")
            .first()
        )
        if message is None:
            return None
        message.lease += 1
        message.attempts += 1
        Message.objects.filter(pk=message.pk).update(
            lease=message.lease, attempts=message.attempts, leased_until=Now() + LEASE
        )
    return message


def _is_somebody_sending() -> bool:
    """Whether a worker is sending a message now. Locks the evaluation's row, so that of two workers
    that look at once the second sees the first one's claim."""
    Evaluation.objects.select_for_update().first()
    return Message.objects.filter(state=MessageState.QUEUED, leased_until__gt=Now()).exists()


def _failed(message: Message, cause: str, *, once: bool) -> None:
    dead = once or message.attempts >= MAX_ATTEMPTS
    # Not for secrets: the jitter only spreads the attempts.
    pause = pause_seconds(message.attempts, random.random())  # noqa: S311
    Channel.objects.filter(pk=message.channel_id).update(failed_at=Now())
    _store_outcome(
        message,
        state=MessageState.DEAD if dead else MessageState.QUEUED,
        ended_at=Now() if dead else None,
        last_error=cause[:500],
        next_attempt_at=Now() + timedelta(seconds=pause),
        leased_until=None,
    )
    _log.warning(
        "alert message failed",
        message=message.pk,
        channel=message.channel_id,
        attempts=message.attempts,
        dead=dead,
        cause=cause[:500],
    )


def _store_outcome(message: Message, **changes: object) -> None:
    """Store the outcome of an attempt, unless another worker has claimed the message since."""
    Message.objects.filter(pk=message.pk, lease=message.lease, state=MessageState.QUEUED).update(
        **changes
    )


def send_again(message: Message) -> bool:
    """Queue a message that was given up, with all its attempts again.

    Returns:
        Whether it was dead; any other message is left as it is.
    """
    dead = Message.objects.filter(pk=message.pk, state=MessageState.DEAD)
    return bool(
        dead.update(
            state=MessageState.QUEUED,
            attempts=0,
            ended_at=None,
            next_attempt_at=Now(),
            lease=F("lease") + 1,
        )
    )

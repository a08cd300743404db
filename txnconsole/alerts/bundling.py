"""Bundling the notices of a channel into one message: an outage that makes a hundred alerts fire
sends one mail."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from txnconsole.alerts.composing import compose
from txnconsole.alerts.models import Channel, Message, Notice
from txnconsole.enginedb.clock import database_now

#: How long the first notice waits for others.
GROUP_WAIT = timedelta(seconds=10)
#: The most notices in one message; when there are so many, they do not wait any longer.
MAX_NOTICES = 200
_log = structlog.get_logger(__name__)


def bundle() -> int:
    """Make messages of the notices that have waited long enough, one for each channel; one whose
    message cannot be made does not hold up the others.

    Returns:
        How many messages.
    """
    waiting = Notice.objects.filter(message=None, channel__enabled=True)
    channels = waiting.order_by().values_list("channel_id", flat=True).distinct()
    made = 0
    for channel_id in list(channels):
        try:
            made += _bundle(channel_id)
        except Exception:  # Nothing is half done; the next task tries it again.
            _log.exception("notices not bundled", channel=channel_id)
    return made


def _bundle(channel_id: int) -> bool:
    with transaction.atomic():
        channels = Channel.objects.select_for_update(skip_locked=True, of=("self",))
        channel = channels.filter(pk=channel_id, enabled=True).first()
        if channel is None:
            return False  # Another worker has it, or it was switched off meanwhile.
        notices = list(
            Notice.objects.filter(channel=channel, message=None)
            .select_related("alert")
            .order_by("id")[:MAX_NOTICES]
        )
        if not notices:
            return False
        waited = database_now() - notices[0].at
        if waited < GROUP_WAIT and len(notices) < MAX_NOTICES:
            return False
        content = compose(notices, settings.PUBLIC_URL)
        message = Message.objects.create(channel=channel, content=content, next_attempt_at=Now())
        Notice.objects.filter(pk__in=[notice.pk for notice in notices]).update(message=message)
    return True

"""What people should hear of alerts, as notices for each channel; ``bundling`` makes messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from txnconsole.alerts.kinds import Severity
from txnconsole.alerts.models import Alert, Channel, Notice
from txnconsole.alerts.states import NoticeKind


def notify(told: Sequence[tuple[Alert, NoticeKind]], at: datetime) -> None:
    """Note, within the surrounding SQL transaction, what the channels that take an alert of its
    severity are to be told."""
    if not told:
        return
    channels = list(Channel.objects.filter(enabled=True).order_by("id"))
    Notice.objects.bulk_create(
        Notice(channel=channel, alert=alert, kind=kind, value=alert.value, at=at)
        for alert, kind in told
        for channel in channels
        if Severity(alert.severity).rank >= Severity(channel.min_severity).rank
    )

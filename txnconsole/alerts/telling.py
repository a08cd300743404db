"""What people should hear of alerts, as notices for each channel; ``bundling`` makes messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from txnconsole.alerts.kinds import Severity
from txnconsole.alerts.models import Alert, Channel, Notice
from txnconsole.alerts.states import NoticeKind


def notify(told: Sequence[tuple[Alert, NoticeKind]], at: datetime) -> None:
    """Note, within the surrounding SQL transaction, what channels are to be told: those that take
    an alert of its severity, or those that have heard of it when it is over."""
    if not told:
        return
    channels = list(Channel.objects.filter(enabled=True).order_by("id"))
    heard = _heard([alert for alert, kind in told if kind is NoticeKind.RESOLVED])
    Notice.objects.bulk_create(
        Notice(channel=channel, alert=alert, kind=kind, value=alert.value, at=at)
        for alert, kind in told
        for channel in channels
        if (
            channel.pk in heard[alert.pk]
            if alert.pk in heard
            else Severity(alert.severity).rank >= Severity(channel.min_severity).rank
        )
    )


def _heard(alerts: Iterable[Alert]) -> dict[int, set[int]]:
    """The channels that have heard of each of the alerts; without alerts of which none has, as of
    silent workers, which are told when they are over."""
    heard: dict[int, set[int]] = {}
    notices = Notice.objects.filter(alert__in=alerts)
    for alert_id, channel_id in notices.values_list("alert_id", "channel_id"):
        heard.setdefault(alert_id, set()).add(channel_id)
    return heard

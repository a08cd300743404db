"""Making the notices of what people should hear; ``bundling`` makes them into messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from txnconsole.alerts.kinds import Kind, Severity
from txnconsole.alerts.models import Alert, Channel, Notice
from txnconsole.alerts.states import NoticeKind


def notify(told: Sequence[tuple[Alert, NoticeKind]], at: datetime) -> None:
    """Make notices for enabled channels, within the surrounding SQL transaction.

    A channel is told that an alert fires when it takes alerts of that severity, and once more when
    the alert becomes more severe. It is told that the alert is over when it was told of it before.
    That an alert about silent workers fired nobody could tell, so all channels of its severity are
    told that it is over.
    """
    if not told:
        return
    # Locked, so that none is deleted beneath its notices.
    enabled = Channel.objects.select_for_update(no_key=True).filter(enabled=True)
    channels = list(enabled.order_by("id"))
    heard = _heard(
        alert
        for alert, kind in told
        if kind is NoticeKind.RESOLVED and alert.kind != Kind.WORKER_SILENT
    )
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
    """The channels that were told of each alert."""
    heard: dict[int, set[int]] = {alert.pk: set() for alert in alerts}
    notices = Notice.objects.filter(alert__in=list(heard))
    for alert_id, channel_id in notices.values_list("alert_id", "channel_id"):
        heard[alert_id].add(channel_id)
    return heard

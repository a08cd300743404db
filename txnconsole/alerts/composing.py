"""What a message says: JSON for programs, which holds the same as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from engine.model.moment import time_text
from txnconsole.alerts.kinds import KINDS, Kind, Severity
from txnconsole.alerts.models import Alert, Notice
from txnconsole.alerts.states import NoticeKind
from txnconsole.alerts.units import written

#: The version of the JSON format; it grows when receivers would have to be changed.
VERSION = 1
#: The most alerts that the text lists for each state; the JSON has all of them.
_NAMED = 50


def compose(notices: Sequence[Notice], console: str) -> dict[str, Any]:
    """The content of one message about several alerts, the worst first.

    Args:
        notices: in the order in which they were made, with their alerts; when an alert has
            several, only the newest counts.
        console: the URL of the console, without a path; empty when it is not configured.
    """
    newest = {notice.alert_id: notice for notice in notices}
    told = sorted(newest.values(), key=_rank)
    active = [notice for notice in told if notice.kind != NoticeKind.RESOLVED]
    resolved = [notice for notice in told if notice.kind == NoticeKind.RESOLVED]
    return {
        "version": VERSION,
        "kind": "alerts",
        "subject": _subject(active, resolved),
        "text": _text(active, resolved, console),
        "alerts": [_facts(notice, console) for notice in told],
    }


def compose_test(channel: str, who: str, console: str) -> dict[str, Any]:
    """The content of a message that only shows that a channel works; ``console`` as above."""
    text = f"This is a test of the channel {channel}, sent by {who}. Nothing is wrong."
    return {
        "version": VERSION,
        "kind": "test",
        "subject": f"Test of the channel {channel}",
        "text": f"{text}\n{console}/alerts\n" if console else f"{text}\n",
        "alerts": [],
    }


def _rank(notice: Notice) -> tuple[bool, int, int]:
    resolved = notice.kind == NoticeKind.RESOLVED
    return resolved, -Severity(notice.alert.severity).rank, notice.alert_id


def _subject(active: Sequence[Notice], resolved: Sequence[Notice]) -> str:
    told = active or resolved
    first = told[0].alert
    more = f" and {len(told) - 1} more" if len(told) > 1 else ""
    what = f"{first.rule_name}: {first.object}{more}"
    return f"[{first.severity}] {what}" if active else f"[resolved] {what}"


def _text(active: Sequence[Notice], resolved: Sequence[Notice], console: str) -> str:
    parts = []
    if active:
        parts.append(_section(f"Firing ({len(active)})", map(_firing_line, active), len(active)))
    if resolved:
        lines = map(_resolved_line, resolved)
        parts.append(_section(f"Resolved ({len(resolved)})", lines, len(resolved)))
    if console:
        parts.append(f"{console}/alerts")
    return "\n\n".join(parts) + "\n"


def _section(title: str, lines: Iterable[str], number: int) -> str:
    shown = [line for line, _ in zip(lines, range(_NAMED), strict=False)]
    if number > _NAMED:
        shown.append(f"- and {number - _NAMED} more")
    return "\n".join([title, *shown])


def _firing_line(notice: Notice) -> str:
    alert = notice.alert
    unit = KINDS[Kind(alert.kind)].unit
    again = " (reminder)" if notice.kind == NoticeKind.REMINDER else ""
    detail = f" {alert.detail[:200]}." if alert.detail else ""
    return (
        f"- [{alert.severity}] {alert.rule_name}: {alert.object}{again}:"
        f" {written(notice.value, unit)}, more than {written(alert.threshold, unit)},"
        f" since {_moment(alert.fired_at)}.{detail}"
    )


def _resolved_line(notice: Notice) -> str:
    alert = notice.alert
    unit = KINDS[Kind(alert.kind)].unit
    why = f" {alert.resolution}" if alert.resolution else ""
    return (
        f"- {alert.rule_name}: {alert.object}: fired {_moment(alert.fired_at)},"
        f" resolved {_moment(alert.resolved_at)}, at most {written(alert.peak, unit)}.{why}"
    )


def _facts(notice: Notice, console: str) -> dict[str, Any]:
    alert = notice.alert
    return {
        "id": alert.pk,
        "status": "resolved" if notice.kind == NoticeKind.RESOLVED else "firing",
        "reminder": notice.kind == NoticeKind.REMINDER,
        "rule": alert.rule_name,
        "kind": alert.kind,
        "severity": alert.severity,
        "object": alert.object,
        "detail": alert.detail,
        "value": notice.value,
        "threshold": alert.threshold,
        "unit": KINDS[Kind(alert.kind)].unit.value,
        "fired_at": _exact(alert.fired_at),
        "resolved_at": _exact(alert.resolved_at),
        "url": _address(alert, console),
    }


def _address(alert: Alert, console: str) -> str | None:
    return f"{console}/alerts/{alert.pk}" if console else None


def _moment(at: datetime | None) -> str:
    return "?" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _exact(at: datetime | None) -> str | None:
    return None if at is None else time_text(at)

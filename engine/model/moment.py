"""Moments as the REST contract writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(moment: datetime) -> str:
    """A moment, of any time zone, as RFC 3339 text in UTC with microseconds."""
    in_utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{in_utc.isoformat(timespec='microseconds')}Z"

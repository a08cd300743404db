"""Moments as the REST contract writes them."""

from __future__ import annotations

from datetime import datetime


def time_text(moment: datetime) -> str:
    """A moment in UTC as RFC 3339 with microseconds."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"

"""What a reader writes to go to a place in a partition's log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.utils import timezone
from django.utils.dateparse import parse_datetime, parse_time

from engine.model.errors import InvalidRequest
from txnconsole.console.numbers import number_of


def place_of(text: str, now: Callable[[], datetime]) -> int | datetime | None:
    """An offset, a moment, or None (the end of the log) when nothing is written.

    A moment is in the reader's zone unless it names another one; a time alone is today's. Digits
    are an offset, also those that could be read as a date (20261122).

    Args:
        now: tells what time it is; asked only where today matters.

    Raises:
        InvalidRequest: it is neither.
    """
    text = text.strip()
    if not text:
        return None
    offset = number_of(text.replace(",", ""))
    place = _moment(text, now) if offset is None else offset
    if place is None:
        raise InvalidRequest(
            f"{text[:30]!r} is neither an offset nor a moment such as 14:03 or 2026-11-22 14:03.",
            field="at",
        )
    return place


def _moment(text: str, now: Callable[[], datetime]) -> datetime | None:
    try:
        time = parse_time(text)
        if time is None:
            moment = parse_datetime(text)
        else:
            moment = datetime.combine(timezone.localtime(now()), time)
    except ValueError:
        return None  # Like a time, but none (30th of February).
    return timezone.make_aware(moment) if moment and timezone.is_naive(moment) else moment

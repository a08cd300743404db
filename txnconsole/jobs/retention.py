"""Forgetting jobs that ended long ago; the audit log keeps what they did."""

from __future__ import annotations

from pathlib import Path

from django.db import connection

_DROP_ENDED = (Path(__file__).parent / "sql" / "drop_ended.sql").read_text()
#: Jobs at once; each may have ten thousand items.
_LIMIT = 10


def drop_ended(*, kept_days: int) -> int:
    """Remove a few of the jobs that ended more than ``kept_days`` days ago, with their items; tells
    how many."""
    with connection.cursor() as cursor:
        cursor.execute(_DROP_ENDED, [kept_days, _LIMIT])
        return int(cursor.fetchone()[0])

"""The clock of the database that alerts stand in."""

from __future__ import annotations

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    """What it is there, also within an SQL transaction that began earlier."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now

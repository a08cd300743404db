"""The clock of the coordinators' database, which holds Django's tables too: the one clock that all
processes share."""

from __future__ import annotations

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    """The time now, even within an SQL transaction that began earlier (where ``now()`` is not)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now

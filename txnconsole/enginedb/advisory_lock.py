"""Waiting for one's turn, where there is no row yet that could be locked."""

from __future__ import annotations

from django.db import connection


def advisory_lock(what: str) -> None:
    """Be the only one at ``what`` until the surrounding SQL transaction ends: whoever comes
    meanwhile waits, and then sees what this one has done. Take it before any row is locked."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [what])

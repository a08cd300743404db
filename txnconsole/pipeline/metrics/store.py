"""Where figures are stored: one table in the coordinators' database
(``txnconsole.runs.models.Figure``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql
from pyspark.sql import Row

from txnconsole.pipeline.metrics.figures import COLUMNS

_TABLE = sql.Identifier("public", "runs_figure")
#: The lock of a run, from before it reads the logs until its figures stand.
_LOCK = 7_105_113_205_023


@contextlib.contextmanager
def alone(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A session in which figures are computed, while no other run computes any; waits for one that
    does. Otherwise, the one that has read the logs earlier could be the later one to store.

    Raises:
        psycopg.Error: the database cannot be reached.
    """
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        yield session


def newest_hour(session: psycopg.Connection[Any]) -> datetime | None:
    """The newest hour that has figures; None when there are none.

    Raises:
        psycopg.Error: the session has ended.
    """
    statement = sql.SQL("SELECT max(at) FROM {} WHERE resolution = 'hour'").format(_TABLE)
    [(newest,)] = session.execute(statement).fetchall()
    moment: datetime | None = newest
    return None if moment is None else moment.astimezone(UTC)


def replace_figures(
    session: psycopg.Connection[Any], rows: Iterable[Row], since: datetime, until: datetime
) -> int:
    """Replace all figures of [since, until), as a whole or not at all.

    Args:
        session: that of :func:`alone`. When it has ended, so has its lock, and nothing is stored.

    Returns:
        How many rows there are now.

    Raises:
        psycopg.Error: the session has ended, or its role may not write there.
    """
    columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
    written = 0
    with session.transaction(), session.cursor() as cursor:
        cursor.execute(
            sql.SQL("DELETE FROM {} WHERE at >= %s AND at < %s").format(_TABLE), [since, until]
        )
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(_TABLE, columns)) as copy:
            for row in rows:
                copy.write_row([_value(row[column]) for column in COLUMNS])
                written += 1
    return written


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC)  # Spark gives times without a zone, in that of this process.
    return bytes(value) if isinstance(value, bytearray) else value

"""Where figures are stored: one table in the coordinators' database
(``txnconsole.runs.models.Figure``)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import psycopg
from psycopg import sql
from pyspark.sql import Row

from txnconsole.pipeline.metrics.figures import COLUMNS

_TABLE = sql.Identifier("public", "runs_figure")
#: The lock that makes two runs over one range wait for each other; the later one's figures stay.
_LOCK = 7_105_113_205_023


def newest_hour(url: str) -> datetime | None:
    """The newest hour that has figures; None when there are none.

    Raises:
        psycopg.Error: the database cannot be reached.
    """
    with psycopg.connect(url) as connection:
        statement = sql.SQL("SELECT max(at) FROM {} WHERE resolution = 'hour'").format(_TABLE)
        [(newest,)] = connection.execute(statement).fetchall()
    moment: datetime | None = newest
    return None if moment is None else moment.astimezone(UTC)


def replace_figures(url: str, rows: Iterable[Row], since: datetime, until: datetime) -> int:
    """Replace all figures of [since, until), as a whole or not at all.

    Returns:
        How many rows there are now.

    Raises:
        psycopg.Error: the database cannot be reached, or its role may not write there.
    """
    columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
    written = 0
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
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

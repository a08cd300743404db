"""Brings a database's schema up to date: migrations once, functions whenever their text changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache

import psycopg
from psycopg import sql

from engine.postgres.session import Session
from engine.sql import scripts


class SchemaIsNewer(Exception):
    """A later version has brought the database up to date; this one would put its own functions
    over tables that it does not know."""

    def __init__(self, newest: str) -> None:
        super().__init__(
            f"A later version of txnconsole has brought this database up to date ({newest})."
            " Start that one, or restore a copy from before."
        )


def migrate(url: str, kind: str) -> list[str]:
    """Create or update the schema of one database; ``kind`` is ``coordinator`` or ``broker``.

    Safe to run any number of times and from several processes at once: an advisory lock lets one
    run at a time, and all of it is one transaction.

    Returns:
        The names of what was applied.

    Raises:
        SchemaIsNewer: the database has had migrations that this version does not have; nothing was
            changed.
    """
    applied: list[str] = []
    with psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute("SET lock_timeout = '30s'")
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('txnconsole migrate'))")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS public.engine_migration ("
            " name text PRIMARY KEY, digest text NOT NULL,"
            " applied_at timestamptz NOT NULL DEFAULT now())"
        )
        rows = connection.execute("SELECT name, digest FROM engine_migration").fetchall()
        done: dict[str, str] = dict(rows)
        _require_no_later(done, kind)
        for folder, repeatable in (("migrations", False), ("functions", True)):
            for name, text in scripts(f"{folder}/{kind}"):
                key = f"{folder}/{kind}/{name}"
                digest = hashlib.sha256(text.encode()).hexdigest()
                if key in done and (not repeatable or done[key] == digest):
                    continue
                connection.execute(text)
                connection.execute(
                    "INSERT INTO engine_migration (name, digest) VALUES (%s, %s)"
                    " ON CONFLICT (name) DO UPDATE SET digest = excluded.digest,"
                    " applied_at = now()",
                    (key, digest),
                )
                applied.append(key)
        # For logins that may not read the table (is_behind).
        comment = sql.SQL("COMMENT ON SCHEMA {} IS {}")
        connection.execute(comment.format(sql.Identifier(kind), sql.Literal(_newest(kind))))
    return applied


def is_behind(session: Session, kind: str) -> bool:
    """Whether a database lacks migrations of this version."""
    [row] = session.all("brought_up_to", schema=kind)
    return row.newest is None or row.newest < _wanted(kind)


def _require_no_later(done: Iterable[str], kind: str) -> None:
    """Migrations are numbered. The first ones were written together into one, so older names that
    are not known here mean nothing."""
    newest = _newest(kind)
    later = [name for name in done if name.startswith(f"migrations/{kind}/") and name > newest]
    if later:
        raise SchemaIsNewer(max(later))


def _newest(kind: str) -> str:
    return max(f"migrations/{kind}/{name}" for name, _ in scripts(f"migrations/{kind}"))


_wanted = cache(_newest)  # Probes ask often, and files do not change under a process.

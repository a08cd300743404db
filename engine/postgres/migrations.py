"""Brings a database's schema up to date: migrations once, functions whenever their text changed."""

from __future__ import annotations

import hashlib

import psycopg

from engine.sql import scripts


def migrate(url: str, kind: str) -> list[str]:
    """Create or update the schema of one database; ``kind`` is ``coordinator`` or ``broker``.

    Safe to run any number of times and from several processes at once: an advisory lock lets one
    run at a time, and all of it is one transaction.

    Returns:
        The names of what was applied.
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
    return applied

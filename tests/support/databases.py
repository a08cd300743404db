"""The test databases: one embedded server per test process, cleaned rather than made anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from engine.model.txn_id import TxnID
from txnconsole.local.postgres import EmbeddedPostgres

NAMES = ("coordinator", "broker_1", "broker_2")

_ENGINE = "^(coordinator|broker)$"
_DJANGO = "^public$"
#: Rows that migrating left are kept aside once, and come back on every cleaning. The procedure that
#: cleans has a statement for each table, whose plan its connection keeps. DELETE is thirty times
#: faster than TRUNCATE where a test has left a few rows. Left out is what no test fills, and the
#: audit log, whose triggers refuse to empty it (see _AS_MIGRATED). Django's ids go on counting.
_KEEP_SEEDS = """
DO $$
DECLARE t regclass; kept text; filled boolean; s record; body text := '';
BEGIN
    CREATE SCHEMA IF NOT EXISTS seed;
    FOR t, kept IN SELECT c.oid, format('seed.%I', n.nspname || '.' || c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind = 'r' AND n.nspname ~ '<schemas>' AND c.relname NOT IN
            ('audit_entry', 'auth_permission', 'django_content_type', 'django_migrations')
    LOOP
        body := body || format('IF pg_relation_size(%s::oid) > 262144 THEN TRUNCATE %s CASCADE;'
            ' ELSE DELETE FROM %2$s; END IF;', t::oid, t);
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', t) INTO filled;
        IF filled THEN
            EXECUTE format('CREATE TABLE %s AS TABLE %s', kept, t);
            body := body || format('INSERT INTO %s OVERRIDING SYSTEM VALUE TABLE %s;', t, kept);
        END IF;
    END LOOP;
    FOR s IN SELECT format('%I.%I', schemaname, sequencename) AS name, start_value
        FROM pg_sequences WHERE schemaname ~ '<schemas>' AND schemaname <> 'public'
    LOOP
        body := body || format('PERFORM setval(%L, %s, false);', s.name, s.start_value);
    END LOOP;
    EXECUTE format('CREATE PROCEDURE seed.<procedure>() LANGUAGE plpgsql AS %L',
        'BEGIN ' || body || ' END');
END $$
"""

#: The triggers that refuse to empty the audit log hold for everybody, and for every role of
#: replication.
_AS_MIGRATED = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM audit_entry) THEN
        ALTER TABLE audit_entry DISABLE TRIGGER USER;
        DELETE FROM audit_entry;
        ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_chain;
        ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_no_change;
        ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_no_truncate;
    END IF;
END $$
"""


@dataclass(frozen=True, slots=True)
class Databases:
    """Connection strings of one coordinator database and two brokers."""

    coordinator_url: str
    broker_urls: list[str]

    @classmethod
    def on(cls, server: EmbeddedPostgres) -> Databases:
        coordinator, *brokers = (server.url(name) for name in NAMES)
        return cls(coordinator, brokers)

    @property
    def all_urls(self) -> list[str]:
        return [self.coordinator_url, *self.broker_urls]

    def keep_seeds(self) -> None:
        """Remember what the migrations filled in of the engine's tables."""
        for url in self.all_urls:
            _keep_seeds(url, "clean", _ENGINE)

    def clean(self) -> None:
        """Leave in the engine's tables what the migrations filled in, in all databases."""
        for url in self.all_urls:
            _connection(url).execute("CALL seed.clean()")

    def keep_djangos_seeds(self) -> None:
        """Remember what the migrations filled in of Django's tables."""
        _keep_seeds(self.coordinator_url, "clean_djangos", _DJANGO)

    def clean_djangos(self) -> None:
        """Leave in Django's tables what the migrations filled in, and in the audit log what stands
        there."""
        _connection(self.coordinator_url).execute("CALL seed.clean_djangos()")

    def as_migrated(self) -> None:
        """Take out of the audit log what tests have committed to it."""
        _connection(self.coordinator_url).execute(_AS_MIGRATED)

    @contextmanager
    def locked(self, rows: LiteralString, *values: object) -> Iterator[None]:
        """As by an operator's forgotten psql: nobody else comes to change these rows of the
        coordinators' database, where Django's tables are too."""
        with psycopg.connect(self.coordinator_url) as other:
            other.execute(f"SELECT FROM {rows} FOR UPDATE", values)
            yield

    def header_locked(self, txn_id: TxnID) -> AbstractContextManager[None]:
        """The header of one transaction is locked."""
        header = "coordinator.transaction WHERE tc_id = %s AND sequence = %s"
        return self.locked(header, txn_id.tc_id, txn_id.sequence)

    @contextmanager
    def empty(self, *names: str) -> Iterator[list[str]]:
        """Further databases on the same server, each without a table: their connection strings."""
        with psycopg.connect(self.coordinator_url, autocommit=True) as connection:
            try:
                for name in names:
                    create = sql.SQL("CREATE DATABASE {}")
                    connection.execute(create.format(sql.Identifier(name)))
                yield [make_conninfo(self.coordinator_url, dbname=name) for name in names]
            finally:
                for name in names:
                    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
                    connection.execute(drop.format(sql.Identifier(name)))

    def sessions_begun(self) -> int:
        """How often anybody has connected to the coordinators' database so far."""
        statement = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
        row = _connection(self.coordinator_url).execute(statement).fetchone()
        assert row is not None
        return int(row[0])


def _keep_seeds(url: str, procedure: str, schemas: str) -> None:
    statement = _KEEP_SEEDS.replace("<procedure>", procedure).replace("<schemas>", schemas)
    _connection(url).execute(statement.encode())


@cache
def _connection(url: str) -> psycopg.Connection:
    """Kept for the whole run: logging in, and the plans of the cleaning, cost most of its time.

    As a replica's, it follows no foreign key; to say so anew would forget the plans."""
    options = "-c session_replication_role=replica -c lock_timeout=10s"
    return psycopg.connect(url, autocommit=True, options=options)

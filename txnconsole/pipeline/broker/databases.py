"""The databases to read, and how sessions on them begin."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import adbc_driver_postgresql
import psycopg
import pyarrow as pa
from adbc_driver_manager import (
    AdbcConnection,
    AdbcDatabase,
    AdbcStatement,
    OperationalError,
    ProgrammingError,
)
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import namedtuple_row

from txnconsole import connection_strings
from txnconsole.pipeline.broker import statements

#: The name of the coordinators' database.
COORDINATOR = "coordinator"
#: Plans must be good for large tables even before PostgreSQL has analyzed them, as in the engine.
_SETTINGS = (
    "-c default_transaction_read_only=on -c timezone=UTC -c enable_seqscan=off"
    " -c enable_bitmapscan=off -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
#: What PostgreSQL says to who lacks a grant; ADBC has the statement behind it.
_DENIED = re.compile(r"permission denied for \w+ \w+")
_READER = "is to be in the group txnconsole_reader"
#: The size of an Arrow batch in bytes: what a task has in memory of its share at a time.
_BATCH_BYTES = 4 * 1024 * 1024


class DatabaseAway(psycopg.OperationalError):
    """A database cannot be reached, or refuses the login; the text names it and says why."""


class OtherDatabase(psycopg.OperationalError):
    """The address leads to another database than the broker's; the text names both."""


class GrantMissing(psycopg.errors.InsufficientPrivilege):
    """A login may not do there what a job needs; the text names the database and what to grant."""


@dataclass(frozen=True)
class Databases:
    """Connection strings by name: ``broker-1``, ``broker-2``, ... and perhaps ``coordinator``."""

    urls: Mapping[str, str] = field(repr=False)
    #: Where offloaded segments are; see :mod:`txnconsole.pipeline.offload.store`.
    offload_directory: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        options: Mapping[str, str],
        environ: Mapping[str, str] | None = None,
        *,
        coordinator: bool = True,
    ) -> Self:
        """Read the options ``brokers``, ``offloadDirectory`` and, if wanted, ``coordinator``, or
        else the environment.

        The first and the last are libpq connection strings. Those of the brokers are separated by
        commas and in the order of the server's ``BROKER_DATABASE_URLS``, because brokers are named
        by that order.

        Raises:
            ValueError: a text is not a connection string; the error does not repeat it.
        """
        environ = os.environ if environ is None else environ
        brokers = options.get("brokers") or environ.get("BROKER_DATABASE_URLS") or ""
        found = enumerate(connection_strings.split(brokers), 1)
        urls = {f"broker-{number}": url for number, url in found}
        url = options.get("coordinator") or environ.get("DATABASE_URL")
        if coordinator and url:
            urls[COORDINATOR] = url
        for name, url in urls.items():
            _check(name, url)
        directory = options.get("offloadDirectory") or environ.get("TXNCONSOLE_OFFLOAD_DIR")
        return cls(urls, directory or None)

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(name for name in self.urls if name != COORDINATOR)

    def options(self) -> dict[str, str]:
        """The options from which :meth:`of` makes the same databases."""
        options = {"brokers": ",".join(self.urls[name] for name in self.brokers)}
        if COORDINATOR in self.urls:
            options["coordinator"] = self.urls[COORDINATOR]
        if self.offload_directory is not None:
            options["offloadDirectory"] = self.offload_directory
        return options

    @contextlib.contextmanager
    def planning(self, name: str, snapshot: str | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A session for small queries, all answered from one snapshot.

        Raises:
            DatabaseAway, OtherDatabase: as :meth:`connect`.
            GrantMissing: the login may not read it.
            psycopg.OperationalError: the snapshot is gone.
        """
        with self.connect(name) as connection, _granted(name, _READER), connection.transaction():
            connection.execute(statements.ONE_SNAPSHOT)
            if snapshot is not None:
                connection.execute(statements.adopt(snapshot))
            yield connection

    def connect(self, name: str) -> psycopg.Connection[Any]:
        """A session that may only read.

        Raises:
            DatabaseAway: the database cannot be reached.
            OtherDatabase: it is not that of the broker (docs/decisions/0067).
            GrantMissing: the login may not read whose it is.
        """
        with _naming(name):
            session = psycopg.connect(
                _session(self.urls[name]), autocommit=True, row_factory=namedtuple_row
            )
        try:
            with _granted(name, _READER):
                if name != COORDINATOR:
                    _require_broker(name, session)
        except BaseException:
            session.close()
            raise
        return session

    def now(self) -> datetime:
        """The time by the coordinators' database.

        Raises:
            DatabaseAway: it cannot be reached.
        """
        with self.connect(COORDINATOR) as session:
            [(now,)] = session.execute(statements.named("now")).fetchall()
        moment: datetime = now
        return moment

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[psycopg.Connection[Any]]:
        """A session for one SQL transaction that writes, committed at the end of the block.

        Raises:
            DatabaseAway: the database cannot be reached.
            GrantMissing: the login may not write there.
        """
        with _naming(name):
            session = psycopg.connect(_session(self.urls[name]))
        with _granted(name, "is to be the server's own"), session as connection:
            connection.read_only = False
            yield connection

    @contextlib.contextmanager
    def reading(self, name: str, snapshot: str | None = None) -> Iterator[Reading]:
        """A session for Arrow batches, all from one snapshot.

        Raises:
            DatabaseAway: the database cannot be reached.
            GrantMissing: the login may not read it.
        """
        with _naming(name):
            session = AdbcConnection(_known(_session(self.urls[name])))
        with (
            _granted(name, _READER),
            session as connection,
            AdbcStatement(connection) as statement,
        ):
            connection.set_autocommit(False)
            reading = Reading(statement)
            reading.run(statements.ONE_SNAPSHOT)
            if snapshot is not None:
                reading.run(statements.adopt(snapshot))
            hint = {"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)}
            statement.set_options(**hint)
            yield reading


class Reading:
    """A session that gives Arrow batches."""

    def __init__(self, statement: AdbcStatement) -> None:
        self._statement = statement

    def run(self, statement: str) -> None:
        """Run a statement that returns no rows."""
        self._statement.set_sql_query(statement)
        self._statement.execute_update()

    def batches(self, statement: str) -> pa.RecordBatchReader:
        """Run a statement. Its batches must be read before the next statement is run."""
        self._statement.set_sql_query(statement)
        stream, _ = self._statement.execute_query()
        return pa.RecordBatchReader.from_stream(stream)


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Say which database it is that cannot be reached."""
    try:
        yield
    except (psycopg.OperationalError, OperationalError) as error:
        raise DatabaseAway(
            f"{name} cannot be reached: {str(error).strip()}. Run this again once it can be."
        ) from error


@contextlib.contextmanager
def _granted(name: str, needed: str) -> Iterator[None]:
    """Say which database refuses a login, and what that needs."""
    try:
        yield
    except (psycopg.errors.InsufficientPrivilege, ProgrammingError) as error:
        if (denied := _DENIED.search(str(error))) is None:
            raise
        raise GrantMissing(f"{name}: {denied[0]}. The login {needed}.") from error


def _require_broker(name: str, session: psycopg.Connection[Any]) -> None:
    """Partitions of a broker that stands at two addresses would be read twice."""
    members = [broker for (broker,) in session.execute(statements.named("membership"))]
    if members == [name]:
        return
    found = members[0] if members else "a database that has never been a broker's"
    raise OtherDatabase(
        f"{name} is not at its address: {found} is. Give the addresses of the brokers in the order"
        " of the server's BROKER_DATABASE_URLS."
    )


@functools.lru_cache(maxsize=16)
def _known(session: str) -> AdbcDatabase:
    """A database. Making it takes five times as long as a session on it, because ADBC then asks for
    its types; so it is kept."""
    database: AdbcDatabase = adbc_driver_postgresql.connect(session)
    return database


def _check(name: str, url: str) -> None:
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ValueError(
            f"The connection string of {name} is none of PostgreSQL's; write host=… dbname=… user=…"
            " or postgresql://…."
        ) from error


def _session(url: str) -> str:
    given = conninfo_to_dict(url)
    wanted = given.get("target_session_attrs")
    return make_conninfo(
        url,
        options=f"{given.get('options') or ''} {_SETTINGS}".strip(),
        # Our sessions only read, so libpq would find none that is "read-write".
        target_session_attrs="primary" if wanted == "read-write" else wanted,
        application_name="txnconsole pipeline",
        connect_timeout=10,
    )

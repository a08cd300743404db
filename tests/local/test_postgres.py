"""The embedded PostgreSQL: starting, recovering, refusing."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.errors import CannotStart
from txnconsole.local.postgres import READER, EmbeddedPostgres, assert_durable

pytestmark = pytest.mark.programs


@pytest.fixture
def directory() -> Iterator[Path]:
    """Closed to everybody else (0700), as root's home is; short, because a socket goes there."""
    with tempfile.TemporaryDirectory(prefix="txnc-") as name:
        (Path(name) / "run").mkdir()
        yield Path(name)


def server(directory: Path, **settings: str) -> EmbeddedPostgres:
    return EmbeddedPostgres(
        directory,
        sockets=directory / "run",
        password="correct horse",
        log=directory / "postgres.log",
        settings=settings,
    )


def test_it_keeps_what_it_has_acknowledged_by_default(directory: Path) -> None:
    postgres = server(directory)
    postgres.start(["coordinator"])
    try:
        assert_durable("DATABASE_URL", postgres.url("coordinator"))
    finally:
        postgres.stop()


def test_a_backend_keeps_the_memory_that_its_next_statement_needs(
    postgres: EmbeddedPostgres,
) -> None:
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        stat = Path(f"/proc/{connection.info.backend_pid}/stat")

        def page_faults() -> int:
            return int(stat.read_text().rpartition(")")[2].split()[7])

        def use_memory() -> None:
            connection.execute("SELECT length(repeat('x', %s))", [300_000])

        for _ in range(20):
            use_memory()
        before = page_faults()
        for _ in range(100):
            use_memory()
        # 74 pages each, if it were given back and asked for again.
        assert page_faults() - before < 1000


def test_a_server_without_fsync_is_refused(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(CannotStart, match=r"^DATABASE_URL: its server runs with fsync = off\.$"):
        assert_durable("DATABASE_URL", postgres.url("coordinator"))


def test_an_unreachable_server_is_named_without_its_password() -> None:
    secret = secrets.token_hex(8)
    url = f"postgresql://user:{secret}@127.0.0.1:1/none"
    with pytest.raises(CannotStart, match=r"^DATABASE_URL cannot be reached: ") as raised:
        assert_durable("DATABASE_URL", url)
    assert secret not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["{secret} x", "postgresql:/{secret}@host/db", "host=a {secret}=b"]
)
def test_what_is_no_address_is_told_in_one_line_without_its_text(text: str) -> None:
    secret = secrets.token_hex(8)
    with pytest.raises(CannotStart) as raised:
        assert_durable("DATABASE_URL", text.format(secret=secret))
    assert str(raised.value) == "DATABASE_URL is no address of a PostgreSQL database."


def test_a_wrong_password_is_refused(postgres: EmbeddedPostgres, server_directory: Path) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(host=str(server_directory / "run"), user="postgres", password="guess")


@pytest.mark.crash
def test_the_jobs_login_may_read_what_its_group_may_and_keeps_up_with_its_password(
    directory: Path,
) -> None:
    postgres = server(directory, fsync="off")
    postgres.start(["coordinator"])
    try:
        for password in ("first", "second"):
            postgres.create_login(READER, password)
        with psycopg.connect(postgres.url("coordinator")) as owner:
            owner.execute("CREATE TABLE given (id int)")
            owner.execute("CREATE TABLE kept (id int)")
            owner.execute("GRANT SELECT ON given TO txnconsole_reader")
        url = postgres.url("coordinator", user=READER.name, password="second")
        with psycopg.connect(url, autocommit=True) as reader:
            reader.execute("SELECT FROM given")
            for forbidden in ("SELECT FROM kept", "DELETE FROM given", "CREATE ROLE other"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute(forbidden)
    finally:
        postgres.stop()


def test_it_continues_after_being_killed(directory: Path) -> None:
    first = server(directory)
    first.start(["coordinator"])
    with psycopg.connect(first.url("coordinator"), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    postmaster = int((directory / "postgres" / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGKILL)
    assert (directory / "postgres" / "postmaster.pid").exists()

    second = server(directory)
    second.start(["coordinator"])
    try:
        with psycopg.connect(second.url("coordinator")) as connection:
            assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    finally:
        second.stop()
        first.stop()


@pytest.mark.parametrize("path", ["link", "files/../files"])
def test_a_server_that_a_killed_run_left_is_stopped_however_its_path_is_written(
    directory: Path, path: str
) -> None:
    (directory / "files" / "run").mkdir(parents=True)
    (directory / "link").symlink_to("files")
    left = server(directory / path, fsync="off")
    left.start([])
    again = server(directory / path, fsync="off")
    try:
        again.start([])
    finally:
        again.stop()
        left.stop()


def test_a_stale_pid_file_that_names_a_living_process_is_no_obstacle(directory: Path) -> None:
    postgres = server(directory, fsync="off")
    postgres.start([])
    pid_file = directory / "postgres" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    postgres.stop()

    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    again = server(directory, fsync="off")
    again.start([])
    again.stop()


def test_an_interrupted_initdb_is_done_again(directory: Path) -> None:
    half_made = directory / "postgres.new"
    half_made.mkdir()
    (half_made / "PG_VERSION").write_text("18")

    postgres = server(directory, fsync="off")
    postgres.start([])
    postgres.stop()
    assert not half_made.exists()


def test_a_run_that_was_killed_within_initdb_is_gone_on_with(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    place = directory / "data"
    with monkeypatch.context() as patch, DataDirectory.held(place) as data:
        patch.setattr(subprocess, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            server(data.path, fsync="off").start([])

    with DataDirectory.held(place) as data:
        postgres = server(data.path, fsync="off")
        postgres.start([])
        postgres.stop()


def test_a_setting_it_refuses_is_told_in_one_line(directory: Path) -> None:
    postgres = server(directory, shared_buffers="nonsense")
    with pytest.raises(CannotStart, match=r"^PostgreSQL did not start: .*shared_buffers.*") as told:
        postgres.start([])
    assert "\n" not in str(told.value)


def test_files_of_another_major_version_are_told_as_such(directory: Path) -> None:
    postgres = server(directory)
    postgres.start([])
    postgres.stop()
    (directory / "postgres" / "PG_VERSION").write_text("17\n")
    with pytest.raises(CannotStart, match=r"postgres is of PostgreSQL 17, and this is another: "):
        postgres.start([])

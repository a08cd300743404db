"""Bringing databases up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from engine.postgres import migrations
from engine.postgres.migrations import SchemaIsNewer, migrate
from engine.sql import scripts
from tests.support.databases import Databases
from txnconsole.local.postgres import WRITER

#: Numbers that two or three migrations have, from before this was looked at.
_REPEATED = {"broker": {"0009"}, "coordinator": {"0004", "0006", "0007", "0013"}}


@pytest.fixture
def empty_url(databases: Databases) -> Iterator[str]:
    """An empty database of its own."""
    with databases.empty("migrated") as [url]:
        yield url


@pytest.mark.parametrize("kind", ["coordinator", "broker"])
def test_the_first_run_applies_everything_and_the_next_nothing(empty_url: str, kind: str) -> None:
    applied = migrate(empty_url, kind)
    assert f"migrations/{kind}/0001_initial" in applied
    assert migrate(empty_url, kind) == []


@pytest.mark.parametrize("kind", ["coordinator", "broker"])
def test_a_migration_has_a_number_of_its_own(kind: str) -> None:
    """By the newest name alone it is told whether a database lacks migrations: a new one with the
    same number and an earlier name would not be missed."""
    numbers = Counter(name[:4] for name, _ in scripts(f"migrations/{kind}"))
    assert {number for number, names in numbers.items() if names > 1} == _REPEATED[kind]
    assert max(numbers) not in _REPEATED[kind]


@pytest.mark.parametrize("kind", ["coordinator", "broker"])
def test_writers_may_change_rows_also_of_later_tables_and_alter_nothing(
    empty_url: str, kind: str
) -> None:
    migrate(empty_url, kind)
    with psycopg.connect(empty_url) as connection:
        connection.execute(f"SET search_path = {kind}")
        connection.execute("CREATE TABLE later (id bigserial PRIMARY KEY, said text)")
        connection.execute(f"SET ROLE {WRITER.group}")
        connection.execute("INSERT INTO later (said) VALUES ('x')")
        connection.execute("UPDATE later SET said = 'y'")
        connection.execute("DELETE FROM later")
        for statement in (
            "CREATE TABLE mine (id int)",
            "ALTER TABLE later ADD COLUMN more text",
            "DROP TABLE later",
        ):
            refused = pytest.raises(psycopg.errors.InsufficientPrivilege)
            with refused, connection.transaction():
                connection.execute(statement)


def test_several_at_once_apply_everything_once(empty_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(migrate, empty_url, "broker") for _ in range(4)]
        applied = [step for run in runs for step in run.result()]
    assert len(applied) == len(set(applied)) > 1


def test_a_changed_function_is_replaced_and_a_migration_is_not_run_again(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty_url, "coordinator")

    def changed(folder: str) -> list[tuple[str, str]]:
        return [(name, text + "\n-- changed\n") for name, text in scripts(folder)]

    monkeypatch.setattr(migrations, "scripts", changed)
    functions = [name for name, _ in scripts("functions/coordinator")]
    assert migrate(empty_url, "coordinator") == [f"functions/coordinator/{n}" for n in functions]


@pytest.mark.parametrize("kind", ["coordinator", "broker"])
def test_what_a_later_version_has_brought_up_to_date_is_left_as_it_is(
    empty_url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(folder: str) -> list[tuple[str, str]]:
        extra = [("9999_later", "SELECT 1")] if folder.startswith("migrations") else []
        return [*((name, text + "\n-- later\n") for name, text in scripts(folder)), *extra]

    def known() -> list[tuple[str, ...]]:
        with psycopg.connect(empty_url) as connection:
            return connection.execute("TABLE engine_migration ORDER BY name").fetchall()

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "scripts", later)
        migrate(empty_url, kind)
    before = known()
    with pytest.raises(SchemaIsNewer, match=r"later version .*9999_later"):
        migrate(empty_url, kind)
    assert known() == before


def test_a_migration_that_fails_leaves_nothing_behind(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: str) -> list[tuple[str, str]]:
        extra = [("9999_broken", "SELECT 1 / 0")] if folder.startswith("migrations") else []
        return [*scripts(folder), *extra]

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "scripts", broken)
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate(empty_url, "broker")
    with psycopg.connect(empty_url) as connection:
        found = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname = 'broker'"
        ).fetchall()
    assert found == []
    assert migrate(empty_url, "broker") != []

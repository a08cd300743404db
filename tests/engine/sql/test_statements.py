"""Every named statement is valid, documented enough to be found, and used."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

import engine
from engine.buffer import ending
from engine.coordinator import figures
from engine.coordinator import statements as coordinator_statements
from engine.log import appending
from engine.log import statements as log_statements
from engine.log.brokers import FILES as BROKER_FILES
from engine.postgres.prepared import Prepared
from engine.sql import queries, scripts
from engine.subscription import statements as subscription_statements
from tests.engine.sql.named_statements import FILES, numbered
from tests.support.databases import Databases

SOURCES = Path(engine.__file__).parent
NAMES = [(file, name) for file in FILES for name in queries(file)]


@pytest.mark.parametrize("file", FILES)
def test_each_statement_can_be_prepared(databases: Databases, file: str) -> None:
    refused = {}
    with psycopg.connect(databases.all_urls[FILES[file]], autocommit=True) as connection:
        for name, statement in queries(file).items():
            body = re.sub(r"^(--.*\n)+", "", statement)
            if not re.match(r"SELECT|WITH|INSERT|UPDATE|DELETE", body):
                assert file == "session"
                continue
            try:
                connection.execute(f'PREPARE "{name}" AS {numbered(statement)}'.encode())
            except psycopg.Error as error:
                refused[name] = str(error)
    assert refused == {}


def test_every_file_of_statements_is_read() -> None:
    assert set(FILES) == {path.stem for path in (SOURCES / "sql/queries").glob("*.sql")}


def test_every_statement_is_used_by_its_name() -> None:
    code = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    unused = [name for _, name in NAMES if f'"{name}"' not in code]
    assert unused == []


def test_what_is_read_by_position_is_asked_by_name() -> None:
    """Or a column that a migration adds would shift what a process reads that has not been begun
    again since."""
    modules = (
        *(appending, ending, figures),
        *(log_statements, coordinator_statements, subscription_statements),
    )
    prepared = [
        each for module in modules for each in vars(module).values() if isinstance(each, Prepared)
    ]
    assert len(prepared) > 10
    everything = re.compile(rb"(SELECT|RETURNING) \*")
    assert [each.name for each in prepared if everything.search(each._text)] == []


def test_names_are_unique_within_a_database() -> None:
    for files in (("session", *coordinator_statements.FILES), ("session", *BROKER_FILES)):
        names = [name for file in files for name in queries(file)]
        assert len(names) == len(set(names))


def test_brokers_order_names_alike_whatever_the_language_that_they_sort_by() -> None:
    """By bytes, as Python puts their pages together: where "a" comes before "B", the first page
    would end with "B", and the next begin behind it, without "a"."""
    pages = {"page_of_subscriptions", "subscription_summaries", "snapshot_distances"}
    texts = [text for file, name in NAMES for text in [queries(file)[name]] if name in pages]
    assert len(texts) == len(pages)
    for text in texts:
        *_, order = re.findall(r"ORDER BY .*", text)
        assert not re.search(r'\b(?:topic|name)\b(?! COLLATE "C")', order), order


def test_there_is_sql_in_sql_files_only() -> None:
    pattern = re.compile(r"\b(SELECT .+ FROM|INSERT INTO|DELETE FROM|UPDATE \w+\.\w+ SET)\b")
    allowed = {"migrations.py"}  # its own table, before there is any other
    found = [path.name for path in SOURCES.rglob("*.py") if pattern.search(path.read_text())]
    assert set(found) <= allowed


@pytest.mark.parametrize("kind", ["coordinator", "broker"])
def test_a_function_file_defines_the_function_of_its_name(kind: str) -> None:
    for name, text in scripts(f"functions/{kind}"):
        assert f"CREATE OR REPLACE FUNCTION {kind}.{name}(" in text

"""Every named statement finds what it reads by an index, whatever the size of the tables.

Judged by the generic plan that a connection keeps, without running anything: on a table that grows
with history no sequential scan, and no walk over a whole index that no LIMIT ends. A statement that
may do so stands in EXEMPT with its reason. What happens inside functions, and how many rows are
read, is test_plans' to judge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from engine import Engine
from engine.sql import queries
from tests.engine.sql.named_statements import FILES, numbered
from txnconsole.local.postgres import EmbeddedPostgres

pytestmark = pytest.mark.plans

#: Grow with what was ever produced, ended or acknowledged.
_GROWING = {
    *("entry", "txn_index", "ongoing_txn", "ended_txn", "pending_ack_log", "ended_ack_txn"),
    *("position_sample", "delivery", "transaction", "txn_partition", "txn_subscription"),
    *("transaction_log", "archive"),
}
_LIVE = ("transaction_live_idx", "counts what is live; limits bound how much that is")
#: These may walk the whole of one index, and nothing else: why.
EXEMPT = {
    "live_counts": _LIVE,
    "live_of_coordinators": _LIVE,
    "coordinator_stats": _LIVE,
    "open_ids": _LIVE,
}

_FILES = list(dict.fromkeys(file for file in (*FILES, "retention") if file != "session"))


def plan_of(connection: psycopg.Connection[Any], statement: str) -> dict[str, Any]:
    row = connection.execute(
        f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered(statement)}".encode()
    ).fetchone()
    assert row is not None
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return dict(found[0]["Plan"])


def unbounded(node: dict[str, Any], *, limited: bool = False) -> Iterator[str]:
    """The scans of growing tables that nothing bounds; ``limited``: a LIMIT stops what is below,
    with nothing between that would have to read all of it first."""
    kind = node["Node Type"]
    limited = kind == "Limit" or (
        (limited and kind in ("Nested Loop", "Subquery Scan", "LockRows", "Result", "ProjectSet"))
        or (limited and kind.startswith("Index"))
    )
    if node.get("Relation Name") in _GROWING:
        if kind in ("Seq Scan", "Sample Scan"):
            yield f"{kind} on {node['Relation Name']}"
        elif kind.startswith("Index") and "Index Cond" not in node and not limited:
            yield f"all of {node['Index Name']}"
    for child in node.get("Plans", []):
        yield from unbounded(child, limited=limited)


@pytest.fixture(scope="module")
def unused(postgres: EmbeddedPostgres) -> list[str]:
    """A coordinator's and a broker's database that no test has filled: what others have left in the
    statistics would decide the plan."""
    names = ("plans_coordinator", "plans_broker")
    postgres.create_databases(names)
    coordinator, broker = (postgres.url(name) for name in names)
    engine = Engine(coordinator, {"broker-1": broker})
    engine.migrate()
    engine.close()
    return [coordinator, broker]


@pytest.mark.parametrize("file", _FILES)
def test_each_statement_finds_what_it_reads(unused: list[str], file: str) -> None:
    options = "-c enable_seqscan=off -c enable_bitmapscan=off"
    wrong = {}
    with psycopg.connect(unused[FILES.get(file, 1)], options=options) as connection:
        for name, text in queries(file).items():
            statement = re.sub(r"^(--.*\n)+", "", text)
            allowed, _ = EXEMPT.get(name, ("nothing", ""))
            found = unbounded(plan_of(connection, statement))
            if others := [each for each in found if not each.startswith(f"all of {allowed}")]:
                wrong[name] = others
    assert wrong == {}


def test_every_exemption_is_of_a_statement_that_there_is() -> None:
    assert EXEMPT.keys() <= {name for file in _FILES for name in queries(file)}

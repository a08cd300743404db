"""Rules at their edges, on a copy made by hand. Each case (:mod:`tests.pipeline.audit.cases`) has
a topic and transactions of its own; the audit of all of them together finds of each what it names,
and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.audit.cases import logs, sidecars, subscriptions
from tests.pipeline.audit.cases.case import LAYOUTS, Case, Found
from tests.pipeline.audit.conftest import Copied, Row
from txnconsole.pipeline.audit.log_copy import TABLES, mark_whole
from txnconsole.pipeline.audit.report import Finding, Report, audit

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

CASES: dict[str, Callable[[Case], Found]] = {
    name.replace("_", "-"): made
    for module in (logs, sidecars, subscriptions)
    for name, made in inspect.getmembers(module, inspect.isfunction)
    if made.__module__ == module.__name__
}


#: A twin's broker has this behind the other's name; its offsets are further on by so many.
TWIN, MOVED = "-twin", 2**20
OFFSETS = {
    *("first_offset", "last_offset", "marker_offset", "last_stable_offset", "commit_offset"),
    *("log_start", "head_start", "next_offset", "first_ongoing_offset"),
    *("mark_delete", "lower", "upper", "message_offset"),
}


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Row]:
    """The audit of all cases, and what each of them is to find."""
    copied = Copied(tmp_path_factory.mktemp("made"))
    tables, wanted = united()
    for name, rows in tables.items():
        copied.write(name, rows)
    mark_whole(copied.directory)
    return audit(spark, copied.read(spark), lambda _name, _done, _total: None), wanted


def united() -> tuple[dict[str, list[Row]], Row]:
    """The rows of all cases, by table; and by topic what is to be found."""
    tables: dict[str, list[Row]] = {name: [] for name in TABLES}
    wanted = {}
    for tc_id, (name, make) in enumerate(CASES.items()):
        case = Case(name, tc_id)
        wanted[case.topic] = make(case)
        of_another_coordinator(case)
        for table, rows in case.tables.items():
            tables[table] += rows
            if "broker string" in TABLES[table]:
                tables[table] += map(twin, rows)
    return tables, wanted


def of_another_coordinator(case: Case) -> None:
    """Transactions with the same numbers, which have ended the other way, with more messages each;
    its low water marks cover them all."""
    own = {"tc_id": case.own + len(CASES)}
    rows = {
        name: [row for row in rows if row["tc_id"] in (case.own, None)]
        for name, rows in case.tables.items()
    }
    committed = {
        row["sequence"]: row["status"] in ("ABORTED", "ABORTING") for row in rows["headers"]
    }
    for txn, other_way in committed.items():
        status = "COMMITTED" if other_way else "ABORTED"
        case.add("headers", **own, sequence=txn, status=status, ended_before=True)
    for table in ("fence", "participants", "ended_acks", "acknowledgers"):
        for row in rows[table]:
            if (txn := row["sequence"]) in committed:
                told = {
                    name: row[name] + 7
                    for name in ("messages", "acked_messages")
                    if row.get(name) is not None
                }
                case.tables[table].append(row | own | told | {"aborted": not committed[txn]})
    case.add("issued", **own, next_sequence=10**6 + 1)
    for table, places in (("marks", "logs"), ("ack_marks", "subscriptions")):
        for place in rows[places]:
            mark = {"low_water_mark": 10**6, "topic": case.topic}
            case.tables[table].append(place | own | mark)


def twin(row: Row) -> Row:
    """A row of a log of the same name and transactions on another broker, at other offsets."""
    moved = {name: row[name] + MOVED for name in OFFSETS & row.keys() if row[name] is not None}
    letters = {
        name: row[name].replace("/s/1", "/s/2")
        for name in ("producer", "producer_name")
        if str(row.get(name)).startswith("dead-letters/")
    }
    return row | moved | letters | {"broker": row["broker"] + TWIN}


@pytest.mark.parametrize("name", CASES)
def test_of_each_case_is_found_what_is_wrong_and_nothing_else(
    report: tuple[Report, Row], name: str
) -> None:
    found, wanted = report
    topic = f"public/default/{name}"
    assert {
        (each.rule, _log(each), _sequence(each.txn_id))
        for each in found.findings
        if each.topic == topic and not each.broker.endswith(TWIN)
    } == wanted[topic]


def test_of_a_log_of_the_same_name_on_another_broker_the_same_is_found_at_its_own_offsets(
    report: tuple[Report, Row],
) -> None:
    """And each once: no row of one is joined with the other's."""
    found = [_placed(each) for each in report[0].findings]
    first, second = ([place[1:] for place in found if place[0] is moved] for moved in (False, True))
    assert sorted(first, key=str) == sorted(second, key=str)
    assert len(set(found)) == len(found)


def test_nothing_is_found_outside_the_cases(report: tuple[Report, Row]) -> None:
    found, wanted = report
    assert {each.topic for each in found.findings} == {
        topic for topic, each in wanted.items() if each
    }


def _placed(found: Finding) -> tuple[object, ...]:
    """Whether a finding is of a twin, and its place; the offset is the other's."""
    moved = found.broker.endswith(TWIN)
    offset = found.offset if found.offset is None or not moved else found.offset - MOVED
    kind = found.evidence.get("ack_type")
    return moved, found.rule, found.topic, _log(found), offset, found.txn_id, kind


def _log(found: Finding) -> str:
    broker = found.broker.removesuffix(TWIN)
    number = f":{found.partition}" if found.partition else ""
    part = f"/{found.log}" if f"/{found.log}" in LAYOUTS else ""
    return ("" if broker == "broker-1" else f"@{broker}") + number + part


def _sequence(txn_id: str | None) -> int | None:
    return None if txn_id is None else int(txn_id.partition(":")[2])

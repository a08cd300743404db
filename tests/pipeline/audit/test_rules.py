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
from txnconsole.pipeline.audit.log_copy import TABLES, WHOLE
from txnconsole.pipeline.audit.report import Finding, Report, audit

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

CASES: dict[str, Callable[[Case], Found]] = {
    name.replace("_", "-"): made
    for module in (logs, sidecars, subscriptions)
    for name, made in inspect.getmembers(module, inspect.isfunction)
    if made.__module__ == module.__name__
}


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Row]:
    """The audit of all cases, and what each of them is to find."""
    copied = Copied(tmp_path_factory.mktemp("made"))
    tables, wanted = united()
    for name, rows in tables.items():
        copied.write(name, rows)
    (copied.directory / WHOLE).touch()
    return audit(spark, copied.read(spark), lambda _name, _done, _total: None), wanted


def united() -> tuple[dict[str, list[Row]], Row]:
    """The rows of all cases, by table; and by topic what is to be found."""
    tables: dict[str, list[Row]] = {name: [] for name in TABLES}
    wanted = {}
    for tc_id, (name, make) in enumerate(CASES.items()):
        case = Case(name, tc_id)
        wanted[case.topic] = make(case)
        for table, rows in case.tables.items():
            tables[table] += rows
    return tables, wanted


@pytest.mark.parametrize("name", CASES)
def test_of_each_case_is_found_what_is_wrong_and_nothing_else(
    report: tuple[Report, Row], name: str
) -> None:
    found, wanted = report
    topic = f"public/default/{name}"
    assert {
        (each.rule, _log(each), _sequence(each.txn_id))
        for each in found.findings
        if each.topic == topic
    } == wanted[topic]


def test_nothing_is_found_outside_the_cases(report: tuple[Report, Row]) -> None:
    found, wanted = report
    assert {each.topic for each in found.findings} == {
        topic for topic, each in wanted.items() if each
    }


def _log(found: Finding) -> str:
    number = f":{found.partition}" if found.partition else ""
    return number + (f"/{found.log}" if f"/{found.log}" in LAYOUTS else "")


def _sequence(txn_id: str | None) -> int | None:
    return None if txn_id is None else int(txn_id.partition(":")[2])

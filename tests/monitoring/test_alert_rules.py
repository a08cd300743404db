"""When the alert rules about tasks and requests fire, over scrapes of what the product emits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from engine import Engine
from engine.model.figures import FigureName
from tests.monitoring.promql import Labels, Scraped, Vector, firing, lasting
from txnconsole.celery import app
from txnconsole.enginedb import wiring
from txnconsole.monitoring.collector import ASKED_FOR
from txnconsole.monitoring.exposition import exposition
from txnconsole.queue import heartbeat
from txnconsole.workers.schedule import SCHEDULE

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("looked_at_anew")]

_FILE = Path(__file__).resolve().parents[2] / "docs" / "monitoring" / "alerts.yml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(_FILE.read_text())["groups"]
    for rule in group["rules"]
}
#: Seconds between two scrapes.
_EVERY = 30


def scraped(place: int, text: str) -> Scraped:
    samples: dict[str, Vector] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels: Labels = frozenset(sample.labels.items())
            samples.setdefault(sample.name, {})[labels] = sample.value
    return Scraped(float(place * _EVERY), samples)


def fired(alert: str, history: list[Scraped]) -> dict[str, float]:
    """For which tasks (or "") the alert fires within the history, and from which second on."""
    rule = RULES[alert]
    found = firing(rule["expr"], lasting(rule.get("for", "0s")), history)
    return {dict(labels).get("task", ""): at for at, labels in found}


def lived(minutes: int, each: Callable[[int], None]) -> list[Scraped]:
    """Scrapes of so many minutes; ``each`` is what happens before the next, told its second."""
    history = []
    for place in range(minutes * 60 // _EVERY + 1):
        history.append(scraped(place, exposition().decode()))
        each(place * _EVERY)
    return history


def ran(*tasks: str, result: str = "done") -> None:
    for task in tasks:
        wiring.engine().figures.observe(FigureName.TASKS, 0.01, f"{task}/{result}")


@pytest.fixture
def others() -> Iterator[Callable[[], None]]:
    """Has a worker carry out all tasks but one."""

    def carry_out() -> None:
        heartbeat.beat("worker-1")
        ran(*(task for task in SCHEDULE if task != "schedule_runs"))

    return carry_out


def test_a_task_that_has_never_failed_before_and_fails_each_minute_fires(engine: Engine) -> None:
    """The first failure was not seen, since a rate knows no series that begins with 1."""

    def fail(second: int) -> None:
        if second == 60 or (second >= 300 and second % 60 == 0):
            ran("schedule_runs", result="failed")

    history = lived(12, fail)
    assert list(fired("TxnconsoleTasksFail", history)) == ["schedule_runs"]
    seen = history[: 60 * 5 // _EVERY]
    rule = RULES["TxnconsoleTasksFail"]["expr"]
    assert firing(rule, 0.0, seen)  # Pending from the first failure on.


def test_a_task_that_failed_once_does_not_fire(engine: Engine) -> None:
    def fail(second: int) -> None:
        if second == 60:
            ran("take_snapshots", result="failed")

    assert fired("TxnconsoleTasksFail", lived(12, fail)) == {}


def test_a_task_that_was_killed_once_fires_with_the_next_scrape(engine: Engine) -> None:
    def kill(second: int) -> None:
        if second == 60:
            engine.figures.count(FigureName.TASKS_KILLED, "take_snapshots")

    assert fired("TxnconsoleTasksKilled", lived(4, kill)) == {"take_snapshots": 60.0 + _EVERY}


@pytest.mark.usefixtures("valkey_url")
@pytest.mark.parametrize("result", ["failed", None])
def test_a_task_that_is_never_done_fires_whether_it_fails_or_is_killed(
    engine: Engine, others: Callable[[], None], result: str | None
) -> None:
    """One that the time limit kills each time is counted as neither."""

    def run(second: int) -> None:
        others()
        if result is not None and second % 60 == 0:
            ran("schedule_runs", result=result)

    history = lived(12, run)
    [(task, at)] = fired("TxnconsoleTaskNotDone", history).items()
    assert (task, at) == ("schedule_runs", 300.0 + _EVERY)


@pytest.mark.usefixtures("valkey_url")
def test_a_task_that_is_done_once_a_minute_does_not_fire(
    engine: Engine, others: Callable[[], None]
) -> None:
    def run(second: int) -> None:
        others()
        if second % 60 == 30:
            ran("schedule_runs")

    assert fired("TxnconsoleTaskNotDone", lived(12, run)) == {}


@pytest.mark.usefixtures("valkey_url")
def test_where_no_worker_runs_that_is_told_and_not_each_task(engine: Engine) -> None:
    history = lived(12, lambda second: None)
    assert fired("TxnconsoleTaskNotDone", history) == {}
    assert list(fired("TxnconsoleWorkersSilent", history)) == [""]


def test_the_rules_know_every_task_and_how_often_it_runs() -> None:
    from txnconsole.workers import tasks

    of_product = {name for name in app.tasks if name.startswith("txnconsole.")}
    known = {f"txnconsole.{name}" for name in (*SCHEDULE, *ASKED_FOR)}
    assert tasks
    assert of_product == known
    assert f'task!~"{"|".join(ASKED_FOR)}"' in RULES["TxnconsoleTaskNotDone"]["expr"]
    assert max(each["schedule"] for each in SCHEDULE.values()) <= 60


#: Answers a route after another with 503, each once, beside many that are well.
_ANSWERING = """
from django.conf import settings
settings.configure()
from types import SimpleNamespace
from django.test import RequestFactory
from prometheus_client import generate_latest
from txnconsole.monitoring.requests import count_request, tell_all_classes
tell_all_classes()
for place in range(25):
    print(generate_latest().decode(), end="# scraped\\n")
    for path, status, times in (("/well", 200, 50), (f"/{place}", 503, 1)):
        request = RequestFactory().get(path)
        request.resolver_match = SimpleNamespace(route=path)
        for _ in range(times):
            count_request(request, status, 0.001)
"""


def test_requests_that_fail_fire_though_each_route_fails_once_only() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _ANSWERING],
        env={key: value for key, value in os.environ.items() if key != "PROMETHEUS_MULTIPROC_DIR"},
        check=True,
        capture_output=True,
        text=True,
    )
    texts = ended.stdout.split("# scraped\n")[:-1]
    history = [scraped(place, text) for place, text in enumerate(texts)]
    assert fired("TxnconsoleRequestsFail", history) == {"": 300.0 + _EVERY}

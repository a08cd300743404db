"""The board and the rules ask for what a running server emits, and for nothing else."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.monitoring.promql import Asked, asked
from tests.server import Served

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "monitoring"
BOARD = json.loads((DOCS / "board.json").read_text())
ALERTS = yaml.safe_load((DOCS / "alerts.yml").read_text())
RECORDING = yaml.safe_load((DOCS / "recording.yml").read_text())
_SECONDS = 60
#: Labels that Prometheus adds to whatever it scrapes.
_SCRAPED = {"instance", "job"}


def rules(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in document["groups"] for rule in group["rules"]]


def queries() -> dict[str, str]:
    """Every query of the documents, by where it stands."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in rules(ALERTS)}
    found |= {f"record {rule['record']}": rule["expr"] for rule in rules(RECORDING)}
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            found[f"panel {panel['title']} {target['refId']}"] = target["expr"]
    return found


QUERIES = queries()
RECORDS = {rule["record"] for rule in rules(RECORDING)}


@dataclass(frozen=True)
class Emitted:
    """Samples of a scrape: for each name the values that each label has."""

    labels: dict[str, dict[str, set[str]]]
    families: set[str]

    @classmethod
    def of(cls, text: str) -> Emitted:
        labels: dict[str, dict[str, set[str]]] = {}
        families = set()
        for family in text_string_to_metric_families(text):
            if family.name.startswith("txnconsole_"):
                families.add(family.name + ("_total" if family.type == "counter" else ""))
            for sample in family.samples:
                known = labels.setdefault(sample.name, {})
                for label, value in sample.labels.items():
                    known.setdefault(label, set()).add(value)
        return cls(labels, families)


@pytest.fixture(scope="module")
def emitted(server: Served) -> Emitted:
    """What the server emits once it has done some of everything."""
    topic = server.topic()
    with server.client("admin") as client:
        subscription = f"/topics/{topic}/subscriptions/s"
        client.put(subscription, json={"type": "SHARED"}).raise_for_status()
        opened = client.post("/transactions", json={}).raise_for_status().json()["txn_id"]
        client.post(
            f"/topics/{topic}/partitions/0/messages",
            json={"txn_id": opened, "messages": [{"payload": "x"}]},
        ).raise_for_status()
        client.post(f"/transactions/{opened}/commit", json={"wait_ms": 30_000}).raise_for_status()
        client.post(f"/topics/{topic}/partitions/0/snapshot", json={"reason": "test"})
    deadline = time.monotonic() + _SECONDS
    while True:
        text = httpx.get(f"{server.url}/metrics").raise_for_status().text
        done = all(
            re.search(pattern, text)
            for pattern in (r"txnconsole_task_seconds_count\{", r"operator_actions_total\{")
        )
        if done or time.monotonic() > deadline:
            return Emitted.of(text)
        time.sleep(0.2)


def test_every_query_asks_for_metrics_and_labels_that_the_server_emits(emitted: Emitted) -> None:
    wrong = [
        f"{where}: {problem}"
        for where, query in QUERIES.items()
        for one in asked(query)
        for problem in problems(one, emitted)
    ]
    assert wrong == []


def problems(one: Asked, emitted: Emitted) -> Iterator[str]:
    if one.metric in RECORDS:
        return
    known = emitted.labels.get(one.metric)
    if known is None:
        yield f"there is no {one.metric}"
        return
    for label in one.labels - known.keys() - _SCRAPED:
        yield f"{one.metric} has no label {label}"
    for label, value in one.values.items():
        # A task that has failed is not there to be shown.
        if value not in known.get(label, {value}) and (label, value) != ("result", "failed"):
            yield f"{one.metric} has no {label}={value}"


def test_records_are_used_in_alerts_only_when_there_are_such(emitted: Emitted) -> None:
    used = {
        one.metric
        for rule in rules(ALERTS)
        for one in asked(rule["expr"])
        if one.metric not in emitted.labels
    }
    assert used
    assert used <= RECORDS


def test_every_variable_of_the_board_asks_for_what_is_emitted(emitted: Emitted) -> None:
    variables = {each["name"]: each for each in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(BOARD["panels"])))
    assert used == set(variables)
    match = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables["broker"]["query"])
    assert match is not None
    assert match[2] in emitted.labels[match[1]]


def test_legends_name_labels_that_their_query_keeps() -> None:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            kept = set().union(*(one.labels for one in asked(target["expr"])))
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= kept, panel["title"]


def test_the_board_has_every_part_and_no_two_panels_in_one_place() -> None:
    rows = [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Overview", "Who holds back", "Latency", "Aborts", "Workers", "Brokers"]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_alert_says_how_bad_it_is_and_what_it_means() -> None:
    names = [rule["alert"] for rule in rules(ALERTS)]
    assert len(set(names)) == len(names)
    for rule in rules(ALERTS):
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]
        asks = set().union(*(one.labels for one in asked(rule["expr"])))
        named = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert named <= asks, rule["alert"]


def test_the_documentation_lists_what_is_emitted_and_nothing_else(emitted: Emitted) -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `txnconsole_")]
    listed = {name for row in rows for name in re.findall(r"`(txnconsole_\w+)`", row[1])}
    assert listed == emitted.families
    for row in rows:
        for name in re.findall(r"`(txnconsole_\w+)`", row[1]):
            known: set[str] = set()
            for suffix in ("", "_bucket"):
                known |= set(emitted.labels.get(name + suffix, ()))
            if known:  # Of an alert rule there is none before somebody has made it.
                assert set(re.findall(r"`(\w+)`", row[3])) <= known, name

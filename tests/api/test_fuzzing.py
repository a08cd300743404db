"""The contract against the server: its examples, and what is made from the schema, good and bad."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.urls import Resolver404, resolve

from tests.api.test_rights import ALLOWED, REQUESTS
from tests.server import Served
from txnconsole.api.endpoint import operation_of

Answers = dict[str, dict[int, int]]

_SECONDS = 30
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
#: What would take the ground from under the run itself: tens of thousands of coordinators, or the
#: end of the fuzzer's own token.
_LEFT_OUT = ("scaleCoordinators", "revokeToken")
#: Answers that say something of what was asked for, beyond that the request is malformed.
_TOLD = frozenset({200, 201, 202, 204, 404, 409, 413, 422})


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_no_generated_request_breaks_the_contract(server: Served, tmp_path: Path) -> None:
    """And every operation is reached by more than malformed requests."""
    _what_the_examples_name(server)
    _fuzz(server, tmp_path, "examples")  # As many as there are, however long that takes.
    _fuzz(server, tmp_path, "coverage,fuzzing", "--max-time", str(_SECONDS))
    answers = _plain_lists(server)
    for exchanges in tmp_path.glob("*.har"):
        _count(exchanges, answers)
    table = {name: dict(sorted(counts.items())) for name, counts in sorted(answers.items())}
    untold = {
        name: table.get(name, {})
        for name in ALLOWED.keys() - set(_LEFT_OUT)
        if not _TOLD & table.get(name, {}).keys()
    }
    assert untold == {}, table


def _fuzz(server: Served, directory: Path, phases: str, *options: str) -> None:
    exchanges = directory / f"{phases}.har"
    command = [
        *(str(Path(sys.executable).with_name("st")), "run", f"{server.url}/api/v1/schema"),
        *("--header", f"Authorization: Bearer {server.token('admin', user='fuzzer')}"),
        *(part for name in _LEFT_OUT for part in ("--exclude-operation-id", name)),
        *("--checks", ",".join(_CHECKS), "--continue-on-failure"),
        *("--phases", phases, "--max-examples", "5", *options),
        *("--report", "har", "--report-har-path", str(exchanges)),
        *("--request-timeout", "60", "--suppress-health-check", "all"),
        *("--no-color", "--warnings", "off", "--no-shrink", "--generation-database", "none"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    assert result.returncode == 0, result.stdout[-10_000:]
    assert "Test cases:" in result.stdout


def _what_the_examples_name(server: Served) -> None:
    """The topic and the subscription of the contract's examples, with a message."""
    with server.client("admin") as client:
        topic = "/topics/public/default/flights"
        client.put(topic, json={"partitions": 1}).raise_for_status()
        client.put(f"{topic}/subscriptions/delays", json={}).raise_for_status()
        body = {"messages": [{"payload": "delayed"}]}
        client.post(f"{topic}/partitions/0/messages", json=body).raise_for_status()


def _plain_lists(server: Served) -> Answers:
    """Calls that need no parameter have no example either, and are made as they are."""
    answers: Answers = defaultdict(lambda: defaultdict(int))
    with server.client("admin") as client:
        for name, (method, path, _body) in REQUESTS.items():
            if method == "GET" and not re.search(r"\d|[{]|/topics/", path):
                answers[name][client.get(path).status_code] += 1
    return answers


def _count(exchanges: Path, answers: Answers) -> None:
    """Add how often each operation was answered with each status."""
    for entry in json.loads(exchanges.read_text())["log"]["entries"]:
        request = entry["request"]
        try:
            view = resolve(urlsplit(request["url"]).path).func
        except Resolver404:
            continue
        operation = operation_of(view.cls, request["method"])  # type: ignore[attr-defined]
        if operation is not None:
            answers[operation.name][entry["response"]["status"]] += 1

"""The contract against the server: inputs made from the schema, good and bad ones."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import FAST
from tests.server import Served, served
from txnconsole.local.postgres import EmbeddedPostgres

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
#: Answers that say nothing of the operation itself: it was not reached.
_BEFORE_IT = ("NotAuthenticated", "PermissionDenied", "NotFound", "MethodNotAllowed")
_BEFORE_IT += ("NotAcceptable", "UnsupportedMediaType", "LimitExceeded", "IdempotencyKeyReused")


@pytest.fixture
def server() -> Iterator[Served]:
    """A product of its own: what is made up here (rules that fire everywhere, a silence over
    everything, masks) would be the other tests' as well."""
    with tempfile.TemporaryDirectory(prefix="txnconsole-fuzz-") as name:
        directory = Path(name)
        (directory / "run").mkdir()
        postgres = EmbeddedPostgres(
            directory,
            sockets=directory / "run",
            password=secrets.token_urlsafe(12),
            log=directory / "postgres.log",
            settings=FAST,
        )
        postgres.start(())
        try:
            with served(postgres, directory) as product:
                yield product
        finally:
            postgres.stop()


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_no_generated_request_breaks_the_contract_and_every_operation_is_reached(
    server: Served, tmp_path: Path
) -> None:
    token = server.token("admin", user="fuzzer")
    calls = tmp_path / "calls.jsonl"
    command = [
        *(str(Path(sys.executable).with_name("st")), "run", f"{server.url}/api/v1/schema"),
        *("--header", f"Authorization: Bearer {token}"),
        *(part for name in _LEFT_OUT for part in ("--exclude-operation-id", name)),
        *("--checks", ",".join(_CHECKS), "--continue-on-failure"),
        *("--max-examples", "5", "--request-timeout", "60", "--suppress-health-check", "all"),
        *("--no-color", "--warnings", "off", "--no-shrink", "--generation-database", "none"),
    ]
    environment = dict(os.environ) | {
        "PYTHONPATH": str(Path.cwd()),
        "SCHEMATHESIS_HOOKS": "tests.api.fuzzing_hooks",
        "TXNCONSOLE_FUZZED": str(calls),
        "TXNCONSOLE_URL": server.url,
        "TXNCONSOLE_TOKEN": token,
    }
    # The examples reach every operation, however slow the machine; of the rest there is no end.
    for phases in (
        ("--phases", "examples"),
        ("--phases", "coverage,fuzzing", "--max-time", str(_SECONDS)),
    ):
        result = subprocess.run(
            [*command, *phases],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert result.returncode == 0, result.stdout[-10_000:]
        assert "Test cases:" in result.stdout
    made = [json.loads(line) for line in calls.read_text().splitlines()]
    document = httpx.get(f"{server.url}/api/v1/schema").json()
    reached = {call["operation"] for call in made if call["code"] not in _BEFORE_IT}
    assert _operations(document) - reached == set(_LEFT_OUT)
    packed = {call["operation"] for call in made if call["packed"]}
    assert packed == _operations(document, speaking="application/msgpack")


def _operations(document: Any, *, speaking: str = "") -> Set[str]:
    """The operations of the contract; of those alone that take or answer a media type."""
    return {
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if speaking in json.dumps(operation)
    }

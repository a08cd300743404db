"""The contract against the server: inputs made from the schema, good and bad ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server import Served

_SECONDS = 40
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


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_no_generated_request_breaks_the_contract(server: Served, tmp_path: Path) -> None:
    command = [
        *(str(Path(sys.executable).with_name("st")), "run", f"{server.url}/api/v1/schema"),
        *("--header", f"Authorization: Bearer {server.token('admin', user='fuzzer')}"),
        *(part for name in _LEFT_OUT for part in ("--exclude-operation-id", name)),
        *("--checks", ",".join(_CHECKS), "--continue-on-failure"),
        *("--phases", "coverage,fuzzing", "--max-examples", "5", "--max-time", str(_SECONDS)),
        *("--request-timeout", "60", "--suppress-health-check", "all"),
        *("--no-color", "--warnings", "off", "--no-shrink", "--generation-database", "none"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-10_000:]
    assert "Test cases:" in result.stdout

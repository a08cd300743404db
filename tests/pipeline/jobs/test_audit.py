from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.pipeline.jobs import audit
from txnconsole.pipeline.jobs.run import WRONG_OPTIONS, Run, outcome

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("drivers"), pytest.mark.timeout(500)]


def test_an_audit_that_is_asked_for_over_rest_runs_beside_the_workers_and_holds(
    server: Served, new_topic: Callable[[int], str], produce: Callable[..., None]
) -> None:
    topic = new_topic(2)
    produce(topic, [b"a", b"b"])
    produce(topic, [b"c"], partition=1, commit=False)
    with server.client("operator") as operator:
        body = {"kind": "audit", "parameters": {"topics": topic}}
        run: dict[str, Any] = operator.post("/pipeline/runs", json=body).raise_for_status().json()

        def ended() -> bool:
            run.update(operator.get(f"/pipeline/runs/{run['id']}").raise_for_status().json())
            return run["state"] not in ("queued", "running")

        assert eventually(ended, seconds=400), run
    assert (run["state"], run["found"], run["error"]) == ("done", False, ""), run["log_tail"]
    assert run["result"]["holds"] is True
    assert run["result"]["partitions"] == 2
    assert run["result"]["messages"] == 3
    # One or two batches of the first transaction, one of the second, a marker of each.
    assert run["figures"]["rows_in"] == run["result"]["entries"] in (4, 5)
    assert run["figures"]["unaudited"] == len(run["result"]["unaudited"]) == 0
    assert run["stage"]["name"] == "compared"


def test_without_databases_the_command_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("BROKER_DATABASE_URLS", raising=False)
    options = audit._parse([])
    with capture_logs() as lines:
        run = Run("audit", supervised=False)
        assert outcome(run, lambda run: audit._work(options, run)) == WRONG_OPTIONS
    assert "Set DATABASE_URL and BROKER_DATABASE_URLS" in lines[-1]["error"]


def test_a_cluster_finds_the_copy_beside_the_other_data_and_an_old_one_is_deleted(
    tmp_path: Path,
) -> None:
    assert audit._place_of_copies({"TXNCONSOLE_DATA": str(tmp_path)}) is None
    place = tmp_path / "pipeline"
    for name in ("txnconsole-audit-left", "txnconsole-audit-in-use", "carrier-delays"):
        (place / name).mkdir(parents=True)
    for old in ("txnconsole-audit-left", "carrier-delays"):
        os.utime(place / old, (0, 0))
    gone = place / "txnconsole-audit-gone"  # As one that is deleted while the place is listed.
    gone.symlink_to(tmp_path / "nowhere")
    cluster = {"TXNCONSOLE_DATA": str(tmp_path), "TXNCONSOLE_SPARK_MASTER": "spark://one:7077"}
    assert audit._place_of_copies(cluster) == place
    gone.unlink()
    assert {each.name for each in place.iterdir()} == {"txnconsole-audit-in-use", "carrier-delays"}

"""Exactly-once survives ``kill -9`` of the driver, its JVM and all, wherever it strikes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.doomed import AFTER_COMMIT, BEFORE_COMMIT, MID_WRITE, WRITTEN
from txnconsole.client import Client

pytestmark = [
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.xdist_group("drivers"),
    pytest.mark.timeout(420),
]

_ROOT = Path(__file__).parents[2]
_MESSAGES = 12_000
#: Each of the four takes a Spark of its own; the first two cover the two sides of the decision.
_EVERY_RUN = ((MID_WRITE, 1), (AFTER_COMMIT, 1))
_ALL = ((MID_WRITE, 0), (WRITTEN, 0), (BEFORE_COMMIT, 1), (AFTER_COMMIT, 1))
_KILLS = _ALL if os.environ.get("TXNCONSOLE_ALL_KILLS") else _EVERY_RUN


def test_every_message_is_copied_once_although_drivers_die(
    client: Client,
    credentials: dict[str, str],
    tmp_path: Path,
    new_topic: Callable[[int], str],
    committed: Callable[[str], list[bytes]],
) -> None:
    source, target = new_topic(2), new_topic(2)
    sink = f"doomed-{uuid.uuid4().hex}"
    sent = [b"%06d" % number for number in range(_MESSAGES)]
    with client.transaction() as transaction, client.producer(source) as producer:
        for payload in sent:
            producer.send(payload, txn=transaction)
        producer.flush(transaction)
    client.transactions.commit(transaction.txn_id, wait=60)

    def run(moment: str, batch: int) -> int:
        command = [sys.executable, "-m", "tests.pipeline.doomed"]
        command += ["--source", source, "--target", target, "--sink", sink]
        command += ["--checkpoint", str(tmp_path / "checkpoint")]
        command += ["--moment", moment, "--batch", str(batch)]
        environment = os.environ | {
            "TXNCONSOLE_URL": credentials["url"],
            "TXNCONSOLE_TOKEN": credentials["token"],
        }
        with (tmp_path / f"{moment}.log").open("wb") as log:
            return subprocess.run(
                command,
                cwd=_ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                check=False,
            ).returncode

    for moment, batch in _KILLS:
        assert run(moment, batch) == -signal.SIGKILL, (tmp_path / f"{moment}.log").read_text()
        seen = committed(target)
        assert len(seen) == len(set(seen))
    assert run("never", 0) == 0, (tmp_path / "never.log").read_text()

    assert sorted(committed(target)) == sent
    attempts = list(client.transactions.list(client=f"spark:{sink}"))
    assert not [each for each in attempts if each.status == "OPEN"]
    assert [each for each in attempts if each.status == "ABORTED"]

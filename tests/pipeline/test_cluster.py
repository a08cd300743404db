"""A standalone cluster out of the PyPI package: a master and two workers, each a process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.client import Client
from txnconsole.pipeline.java import find_java

#: Beside the tests that share a session: all here is processes of its own.
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("drivers"), pytest.mark.timeout(600)]

_ROOT = Path(__file__).parents[2]
_SPARK = Path(pyspark.__file__).parent
_MASTER = re.compile(r"spark://[\d.]+:\d+")
_MESSAGES = 400


@pytest.fixture
def environment(server: Served) -> dict[str, str]:
    """What master, workers and driver run with; executors inherit it from their worker."""
    return dict(server.environment) | {
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "PYTHONPATH": str(_ROOT),
        "TXNCONSOLE_URL": server.url,
        "TXNCONSOLE_TOKEN": server.token("admin"),
    }


@contextlib.contextmanager
def _daemon(
    name: str, arguments: list[str], environment: dict[str, str], log: Path
) -> Iterator[None]:
    """A master or a worker, ended with all that it has started."""
    command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def master(environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers, of one core each."""
    log = tmp_path / "master.log"
    ports = ["--port", "0", "--webui-port", "0"]

    def address() -> str | None:
        found = _MASTER.search(log.read_text())
        return found[0] if found else None

    with contextlib.ExitStack() as running:
        running.enter_context(
            _daemon("master.Master", ["--host", "127.0.0.1", *ports], environment, log)
        )
        assert eventually(lambda: address() is not None, seconds=120), log.read_text()
        url = address()
        assert url is not None
        for number in (1, 2):
            limits = ["--cores", "1", "--memory", "768M", "--work-dir", str(tmp_path / f"{number}")]
            running.enter_context(
                _daemon(
                    "worker.Worker",
                    ["--host", "127.0.0.1", "--webui-port", "0", *limits, url],
                    environment,
                    tmp_path / f"worker-{number}.log",
                )
            )
        yield url


def test_two_workers_copy_a_topic_straight_from_the_brokers_once_although_an_executor_dies(
    client: Client,
    master: str,
    environment: dict[str, str],
    tmp_path: Path,
    *,
    new_topic: Callable[[int], str],
    committed: Callable[[str], list[bytes]],
) -> None:
    source, target = new_topic(4), new_topic(2)
    sent = [b"%06d" % number for number in range(_MESSAGES)]
    with client.transaction() as transaction, client.producer(source) as producer:
        for number, payload in enumerate(sent):
            producer.send(payload, txn=transaction, partition=number % 4)
        producer.flush(transaction)
    client.transactions.commit(transaction.txn_id, wait=60)
    log = tmp_path / "driver.log"
    with log.open("wb") as output:
        driver = subprocess.run(
            [sys.executable, "-m", "tests.pipeline.cluster_driver", master, source, target],
            cwd=_ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            check=False,
        )
    assert driver.returncode == 0, log.read_text()[-5000:]
    assert sorted(committed(target)) == sent
    executors = [list((tmp_path / f"{number}").glob("app-*/*")) for number in (1, 2)]
    assert all(executors), "one worker has done nothing"
    assert sum(map(len, executors)) >= 3, "no executor has taken the place of the killed one"
    # What the dead attempt has written was complete, and nobody had said that it counts.
    attempts = list(client.transactions.list(client=f"spark:cluster-{target}"))
    assert {each.status for each in attempts} == {"COMMITTED", "ABORTED"}

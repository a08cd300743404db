"""The product as ``make serve`` boots it, with a replay of flights carried through all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.committed import Api, Expected
from tests.acceptance.operator import AbortSeen, abort_what_holds_back
from tests.support.eventually import eventually
from tests.support.product import Product

FLIGHTS = "public/default/flights"
DELAYS = "public/default/delays"
CARRIER_DELAYS = "public/default/carrier-delays"
#: "At least 20 000 flights"; some more, because the last transactions are whole.
LIMIT = 20_000
#: More than the replay and what comes before the operator take anywhere.
_LONG_SECONDS = 1800
_MINUTES = 60.0


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """PostgreSQL, Valkey, web, worker and beat, under one supervisor."""
    running = Product(tmp_path_factory.mktemp("product") / "data")
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def api(product: Product) -> Api:
    return Api(product.url, product.token("operator"))


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected.after(LIMIT)


@pytest.fixture(scope="module")
def replayed(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The flights are replayed while a consumer works; it goes on until the tests are done."""
    log = tmp_path_factory.mktemp("programs")
    consumer = _program(product, log / "consume.log", "txnconsole.demo", "consume")
    replay = _program(
        product,
        log / "replay.log",
        *("txnconsole.demo", "replay", "--limit", str(LIMIT), "--max-speed"),
        *("--hang-timeout", "2", "--long-hang-timeout", str(_LONG_SECONDS), "--data", str(log)),
    )
    assert replay.wait(10 * _MINUTES) == 0, (log / "replay.log").read_text()
    assert consumer.poll() is None, (log / "consume.log").read_text()
    yield log
    consumer.send_signal(signal.SIGTERM)
    assert consumer.wait(120) == 0, (log / "consume.log").read_text()


@pytest.fixture(scope="module")
def abort_seen(product: Product, api: Api, replayed: Path) -> AbortSeen:
    """In Chromium, an operator aborts the transaction that was left hanging for long."""

    def held_for_long(number: int) -> bool:
        blocker = api.partition(FLIGHTS, number)["blocker"]
        if blocker is None or blocker["hidden_messages"] <= 1:
            return False
        # One with a short timeout is soon expired, perhaps under the operator's hands.
        timeout_ms: int = api.get(f"/transactions/{blocker['txn_id']}")["timeout_ms"]
        return timeout_ms == _LONG_SECONDS * 1000

    found = eventually(lambda: any(map(held_for_long, range(4))))
    assert found, "the replay leaves a transaction hanging for long that holds a partition back"
    return abort_what_holds_back(product, FLIGHTS, next(filter(held_for_long, range(4))))


@pytest.fixture(scope="module")
def settled(api: Api, abort_seen: AbortSeen) -> None:
    """No transaction is left undecided, and the consumer has acknowledged every flight."""
    subscription = f"/topics/{FLIGHTS}/subscriptions/delay-monitor"
    assert eventually(
        lambda: not api.get("/transactions", status="OPEN", client="delay-monitor")["items"]
    )
    assert eventually(
        lambda: all(
            api.partition(topic, number)["stable_position"]
            == api.partition(topic, number)["last_offset"]
            for topic in (FLIGHTS, DELAYS)
            for number in range(api.get(f"/topics/{topic}")["partitions"])
        )
    )
    assert eventually(
        lambda: all(
            part["backlog"] == 0 and not part["pending_acks"]
            for part in api.get(subscription)["partitions"]
        )
    )


@pytest.fixture(scope="module")
def carrier_delays_written(product: Product, settled: None, replayed: Path) -> None:
    """The Spark job has read all flights READ_COMMITTED and written its facts."""
    job = _program(
        product,
        replayed / "pipeline.log",
        *("txnconsole.pipeline.jobs.demo", "--available-now"),
        *("--checkpoint", str(replayed / "checkpoint")),
    )
    assert job.wait(5 * _MINUTES) == 0, (replayed / "pipeline.log").read_text()


def _program(product: Product, log: Path, module: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = dict(os.environ) | {
        "TXNCONSOLE_URL": product.url,
        "TXNCONSOLE_TOKEN": product.token("admin"),
    }
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=environment,
            cwd=Path(__file__).parents[2],
            stdout=output,
            stderr=subprocess.STDOUT,
        )

"""kill -9 of PostgreSQL under load: what was acknowledged stays, what was aborted never shows."""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from engine import Engine, EngineSettings
from engine.model.errors import EngineError
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    batch,
    coordinator_sql,
    due_now,
    finalize,
)
from tests.support.databases import NAMES
from tests.support.killing import kill
from txnconsole.local.postgres import EmbeddedPostgres

#: ``make kills`` asks for many; a half of them for each buffer.
ROUNDS = int(os.environ.get("TXNCONSOLE_KILLS", "6")) // 2
CLIENTS = 3
OUTPUT = TopicName("public", "default", "output")
_T = TypeVar("_T")


@dataclass
class Record:
    """What clients were answered."""

    plain: dict[str, int] = field(default_factory=dict)
    committed: list[list[str]] = field(default_factory=list)
    aborted: list[list[str]] = field(default_factory=list)
    unknown: list[list[str]] = field(default_factory=list)
    operations: int = 0
    progress: threading.Condition = field(default_factory=threading.Condition)

    def answered(self) -> None:
        with self.progress:
            self.operations += 1
            self.progress.notify_all()

    def wait_for(self, operations: int) -> None:
        """Until so many more have been answered."""
        with self.progress:
            until = self.operations + operations
            assert self.progress.wait_for(lambda: self.operations >= until, timeout=60)


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """A durable PostgreSQL of its own."""
    with tempfile.TemporaryDirectory(prefix="txnconsole-crash-") as directory:
        sockets = Path(directory) / "run"
        sockets.mkdir()
        found = EmbeddedPostgres(
            Path(directory),
            sockets=sockets,
            password=secrets.token_urlsafe(12),
            log=Path(directory) / "postgres.log",
        )
        found.start(NAMES)
        yield found
        found.stop()


@pytest.fixture(params=BufferKind)
def durable_engine(server: EmbeddedPostgres, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Its topics have each of the buffers in turn."""
    coordinator, *brokers = (server.url(name) for name in NAMES)
    found = Engine(
        coordinator,
        {f"broker-{number}": url for number, url in enumerate(brokers, 1)},
        EngineSettings(snapshot_min_interval_ms=50),
    )
    found.migrate()
    for topic in (TOPIC, OUTPUT):
        settings = TopicSettings(partitions=2, segment_max_messages=25, buffer=request.param)
        found.topics.create(topic, settings)
    found.subscriptions.create(SUBSCRIPTION, SubscriptionSettings())
    yield found
    found.close()


def insisting(call: Callable[[], _T], attempts: int = 20) -> _T:
    """Repeat a call as a client does while the error says that it may."""
    for _ in range(attempts - 1):
        try:
            return call()
        except EngineError as error:
            if not error.retryable:
                raise
    return call()


def work(engine: Engine, record: Record, name: str) -> None:
    """One client, until the server is gone."""
    try:
        for number in range(10_000):
            one_transaction(engine, record, f"{name}.{number}", commit=number % 3 != 0)
            text = f"{name}.{number}.plain"
            record.plain[text] = -1
            appended = engine.produce(P0, batch(text), producer_name=name, sequence_id=number)
            record.plain[text] = appended.first_offset
            record.answered()
    except EngineError as error:
        if not error.retryable:  # a refusal is no consequence of the crash
            raise


def one_transaction(engine: Engine, record: Record, name: str, *, commit: bool) -> None:
    """Produce to both brokers, acknowledge something, end, carry out."""
    texts = [f"{name}.0", f"{name}.1"]
    txn = engine.coordinator.open(owner=name).txn_id
    record.unknown.append(texts)
    for number, text in enumerate(texts):
        engine.produce(PartitionName(OUTPUT, number), batch(text, f"{text}+"), txn_id=txn)
    received = engine.receive(SUBSCRIPTION, name, max_messages=2)
    if received:
        ids = [message.message_id for message in received]
        engine.acknowledge(SUBSCRIPTION, name, ids, txn_id=txn)
        texts += [f"ack {message_id}" for message_id in ids]
    engine.coordinator.end(txn, TxnAction.COMMIT if commit else TxnAction.ABORT)
    (record.committed if commit else record.aborted).append(texts)
    record.unknown.remove(texts)
    record.answered()
    engine.finalizer.finalize(txn.tc_id)
    engine.take_snapshots()
    if not commit:
        engine.apply_retention()


def settle(engine: Engine) -> None:
    """After a crash: what was decided is carried out, what was open is aborted."""
    insisting(engine.take_snapshots)
    coordinator_sql(
        engine, "UPDATE coordinator.transaction SET deadline = opened_at WHERE status = 'OPEN'"
    )
    insisting(engine.coordinator.expire)
    for _ in range(3):
        due_now(engine)
        finalize(engine)
    assert sum(engine.coordinator.load().live.values()) == 0


def readable(engine: Engine) -> tuple[list[str], list[str]]:
    """All plain texts and all transactional ones that READ_COMMITTED readers get."""
    plain = [
        message.payload.decode()
        for partition in (P0, P1)
        for message in engine.log.fetch(partition, 0, 10_000).messages
    ]
    transactional = [
        message.payload.decode()
        for number in (0, 1)
        for message in engine.log.fetch(PartitionName(OUTPUT, number), 0, 10_000).messages
    ]
    return plain, transactional


def check(engine: Engine, record: Record) -> None:
    for partition in (P0, P1, PartitionName(OUTPUT, 0), PartitionName(OUTPUT, 1)):
        assert [one for one in engine.inspect.invariants(partition).checks if not one.passed] == []
    plain, transactional = readable(engine)
    assert len(plain) == len(set(plain))
    assert len(transactional) == len(set(transactional))
    acknowledged = {text for text, offset in record.plain.items() if offset >= 0}
    assert acknowledged <= set(plain) <= set(record.plain)
    shown = set(transactional)
    for texts in record.committed:
        assert {texts[0], f"{texts[0]}+", texts[1], f"{texts[1]}+"} <= shown
    for texts in record.aborted:
        assert not shown & set(texts)
    for texts in record.unknown:  # whole or not at all, on both brokers
        assert len(shown & {texts[0], f"{texts[0]}+", texts[1], f"{texts[1]}+"}) in (0, 4)
    assert len(shown) % 4 == 0


def check_acknowledgements(engine: Engine, record: Record) -> None:
    """Exactly what was never acknowledged by a committed transaction comes again, once."""
    again = []
    while received := insisting(lambda: engine.receive(SUBSCRIPTION, "checker", max_messages=500)):
        again += [f"ack {message.message_id}" for message in received]
    assert len(again) == len(set(again))
    final = {text for texts in record.committed for text in texts if text.startswith("ack")}
    given_back = {text for texts in record.aborted for text in texts if text.startswith("ack")}
    assert not final & set(again)
    assert given_back - final <= set(again) | {
        text for texts in record.unknown for text in texts if text.startswith("ack")
    }
    for number in (0, 1):
        backlog = engine.subscriptions.describe(SUBSCRIPTION).partitions[number].backlog
        assert backlog == sum(text.split(":")[2] == str(number) for text in again)


@pytest.mark.crash
@pytest.mark.timeout(max(240, 40 * ROUNDS))
def test_what_was_acknowledged_outlives_kills_and_what_was_aborted_never_shows(
    server: EmbeddedPostgres, durable_engine: Engine
) -> None:
    engine, record = durable_engine, Record()
    for number in range(ROUNDS):
        with ThreadPoolExecutor(CLIENTS) as pool:
            names = [f"r{number}c{client}" for client in range(CLIENTS)]
            clients = [pool.submit(work, engine, record, name) for name in names]
            record.wait_for(5 + secrets.randbelow(60))
            kill(server)
            for client in clients:
                client.result(60)
        server.start(NAMES)
        insisting(engine.coordinator.stats)
        settle(engine)
        check(engine, record)
    assert record.committed
    assert record.aborted
    check_acknowledgements(engine, record)
    retry_the_unanswered(engine, record)


def retry_the_unanswered(engine: Engine, record: Record) -> None:
    """A producer that got no answer sends again, and the message stands there once."""
    for text, offset in record.plain.items():
        name, number, _ = text.split(".")
        again = engine.produce(P0, batch(text), producer_name=name, sequence_id=int(number))
        if offset >= 0:
            assert (again.duplicate, again.first_offset) == (True, offset)
    plain, _ = readable(engine)
    assert sorted(plain) == sorted(record.plain)

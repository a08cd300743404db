"""The engine beside pgmq and a plain INSERT, on one server in one run: ``make bench-engine``.

Targets are the engine rows of design/quality.md. The server is durable (fsync on). What each row
measures beside stands in its name; both sides write and read the same bytes.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.report import Row, alternate, at_least, per_second, report
from engine import Engine
from engine.model import batch
from engine.model.message import Isolation, NewMessage
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_status import TxnAction
from txnconsole.local.postgres import EmbeddedPostgres

_NAMES = ("coordinator", "broker_1", "broker_2")
_TOPIC = TopicName("public", "default", "bench")


def _payload(number: int) -> bytes:
    """200 bytes of JSON that no two messages share."""
    text = f'{{"id": {number}, "account": "acc-{number * 7919 % 100_003}", "amount": {number % 997}'
    return (text + ', "note": "').ljust(198, "x").encode() + b'"}'


_MESSAGES = [NewMessage(payload=_payload(number), key=str(number % 100)) for number in range(1000)]
_BODIES = [Jsonb({"payload": message.payload.decode()}) for message in _MESSAGES]


class Peer:
    """pgmq and a bare table in the broker's own database."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("SET client_min_messages = warning")
        self._connection.execute((files("pgmq") / "sql" / "pgmq.sql").read_bytes())
        self._connection.execute("SELECT pgmq.create('bench')")
        self._connection.execute("SELECT pgmq.create('consumed')")
        self._connection.execute(
            "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)"
        )

    def send(self) -> None:
        self._connection.execute("SELECT pgmq.send('bench', %s)", (_BODIES[0],))

    def send_batch(self, queue: str = "bench") -> None:
        self._connection.execute("SELECT pgmq.send_batch(%s, %s)", (queue, _BODIES))

    def insert(self) -> None:
        body = batch.encode(_MESSAGES)
        self._connection.execute("INSERT INTO bare (body) VALUES (%s)", (body,))

    def read_and_delete(self, messages: int) -> None:
        rows = self._connection.execute(
            "SELECT msg_id, message FROM pgmq.read('consumed', 30, %s)", (messages,)
        ).fetchall()
        assert len(rows) == messages
        self._connection.execute(
            "SELECT pgmq.delete('consumed', %s::bigint[])", ([row[0] for row in rows],)
        )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="txnconsole-bench-") as directory:
        root = Path(directory)
        (root / "run").mkdir()
        server = EmbeddedPostgres(
            root,
            sockets=root / "run",
            password=secrets.token_urlsafe(12),
            log=root / "postgres.log",
        )
        server.start(_NAMES)
        coordinator, *brokers = (server.url(name) for name in _NAMES)
        engine = Engine(coordinator, {f"broker-{n}": url for n, url in enumerate(brokers, start=1)})
        try:
            engine.migrate()
            engine.topics.create(_TOPIC, TopicSettings(partitions=4))
            location = engine.log.locate(PartitionName(_TOPIC, 0))
            peer = Peer(brokers[int(location.database.name.removeprefix("broker-")) - 1])
            report("engine", [*_produce(engine, peer), *_consume(engine, peer), *_read(engine)])
        finally:
            engine.close()
            server.stop()


def _produce(engine: Engine, peer: Peer) -> list[Row]:
    partition = PartitionName(_TOPIC, 0)
    thousand, queue, bare = alternate(
        lambda: per_second(lambda: engine.produce(partition, _MESSAGES), calls=100, units=1000),
        lambda: per_second(peer.send_batch, calls=5, units=1000),
        lambda: per_second(peer.insert, calls=100, units=1000),
    )
    single, send = alternate(
        lambda: per_second(lambda: engine.produce(partition, _MESSAGES[:1]), calls=300, units=1),
        lambda: per_second(peer.send, calls=300, units=1),
    )
    [together] = alternate(
        lambda: _callers(32, 30, lambda: engine.produce(partition, _MESSAGES[:1]))
    )
    inside, outside = alternate(
        lambda: _hundreds(engine, in_transactions=True),
        lambda: _hundreds(engine, in_transactions=False),
    )
    return [
        at_least("produce 1000 beside pgmq send_batch", thousand, queue, 15),
        at_least("produce 1000 beside INSERT of the same bytes", thousand, bare, 0.8),
        at_least("produce 1 beside pgmq send", single, send, 1.2),
        at_least("produce 1, 32 callers, beside pgmq send", together, send, 4),
        at_least("produce 100 in transactions beside without", inside, outside, 0.99),
    ]


def _consume(engine: Engine, peer: Peer) -> list[Row]:
    name = SubscriptionName(_TOPIC, "bench")
    engine.subscriptions.create(name, SubscriptionSettings())

    def receive_and_ack(messages: int) -> None:
        received = engine.receive(name, "c", max_messages=messages)
        assert len(received) == messages
        engine.acknowledge(name, "c", [message.message_id for message in received])

    def row(messages: int, calls: int, target: float) -> Row:
        for _ in range(5 * messages * calls // 1000 + 1):
            peer.send_batch("consumed")
        ours, theirs = alternate(
            lambda: per_second(lambda: receive_and_ack(messages), calls=calls, units=messages),
            lambda: per_second(lambda: peer.read_and_delete(messages), calls=calls, units=messages),
        )
        return at_least(f"receive + ack {messages} beside pgmq read + delete", ours, theirs, target)

    return [row(100, 20, 4), row(1000, 4, 10)]


def _read(engine: Engine) -> list[Row]:
    """A partition in which one transaction in ten aborted."""
    partition = PartitionName(_TOPIC, 1)
    for number in range(500):
        txn_id = engine.coordinator.open(owner="bench").txn_id
        engine.produce(partition, _MESSAGES[:100], txn_id=txn_id)
        engine.coordinator.end(txn_id, TxnAction.ABORT if number % 10 == 0 else TxnAction.COMMIT)
    _finalize(engine)

    def scan(isolation: Isolation) -> float:
        offset, started = 0, time.perf_counter()
        while True:
            fetched = engine.log.fetch(partition, offset, 1000, isolation=isolation)
            if fetched.next_offset == offset:
                return offset / (time.perf_counter() - started)
            offset = fetched.next_offset

    committed, uncommitted = alternate(
        lambda: scan(Isolation.READ_COMMITTED), lambda: scan(Isolation.READ_UNCOMMITTED)
    )
    return [at_least("READ_COMMITTED beside READ_UNCOMMITTED", committed, uncommitted, 0.98)]


def _hundreds(engine: Engine, *, in_transactions: bool) -> float:
    """Batches of 100 for half a second; in transactions, each open for 100 ms."""
    partition = PartitionName(_TOPIC, 2)
    started = time.perf_counter()
    sent = 0
    for round_ends in (started + step / 10 for step in range(1, 6)):
        txn_id = engine.coordinator.open(owner="bench").txn_id if in_transactions else None
        while time.perf_counter() < round_ends:
            engine.produce(partition, _MESSAGES[:100], txn_id=txn_id)
            sent += 100
        if txn_id is not None:
            engine.coordinator.end(txn_id, TxnAction.COMMIT)
    rate = sent / (time.perf_counter() - started)
    _finalize(engine)
    return rate


def _finalize(engine: Engine) -> None:
    for tc_id in engine.finalizer.due():
        while engine.finalizer.finalize(tc_id).ended:
            pass


def _callers(callers: int, calls: int, work: Callable[[], object]) -> float:
    threads = [
        threading.Thread(target=lambda: [work() for _ in range(calls)]) for _ in range(callers)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return callers * calls / (time.perf_counter() - started)


if __name__ == "__main__":
    main()

"""Retention while PostgreSQL is killed: nothing goes that should stay, nothing is there twice."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from engine import Engine, EngineSettings
from engine.model.errors import EngineError
from engine.model.message import NewMessage
from tests.engine.support import P0, abort, make_topic, noise, open_txn
from tests.support.databases import NAMES
from tests.support.killing import kill
from txnconsole.local.postgres import EmbeddedPostgres

#: After how many messages each time.
_KILLS = (40, 90, 25, 60)
_BODY = [NewMessage(payload=noise(1, 1000))]

pytestmark = pytest.mark.crash


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """A durable server of the test's own."""
    with tempfile.TemporaryDirectory(prefix="txnconsole-test-") as directory:
        (Path(directory) / "run").mkdir()
        found = EmbeddedPostgres(
            Path(directory),
            sockets=Path(directory) / "run",
            password=secrets.token_urlsafe(12),
            log=Path(directory) / "postgres.log",
        )
        found.start(NAMES)
        yield found
        found.stop()


def connect(server: EmbeddedPostgres) -> Engine:
    coordinator, *brokers = (server.url(name) for name in NAMES)
    urls = {f"broker-{number}": url for number, url in enumerate(brokers, start=1)}
    return Engine(coordinator, urls, EngineSettings(snapshot_min_interval_ms=1))


def sweep(engine: Engine, killed: Event) -> None:
    while not killed.is_set():
        engine.apply_retention()
        with contextlib.suppress(EngineError):
            engine.take_snapshots()


def append(engine: Engine, killed: Event, first: int, enough: Event, messages: int) -> int:
    """Append until the server is gone, and tell when it is so many messages; answers the last
    sequence id known to be stored."""
    done = first - 1
    with contextlib.suppress(EngineError):
        while not killed.is_set():
            engine.produce(P0, _BODY, producer_name="p", sequence_id=done + 1)
            done += 1
            if done - first + 1 == messages:
                enough.set()
            if done % 7 == 0:
                txn_id = open_txn(engine)
                engine.produce(P0, _BODY, txn_id=txn_id)
                abort(engine, txn_id)
    return done


def test_retention_survives_kill_9_at_any_moment(server: EmbeddedPostgres) -> None:
    engine = connect(server)
    engine.migrate()
    make_topic(engine, segment_max_messages=5, retention_bytes=20_000)
    stored, start = -1, 0
    for messages in _KILLS:
        killed, enough = Event(), Event()
        with ThreadPoolExecutor(3) as threads:
            sweeps = [threads.submit(sweep, engine, killed) for _ in range(2)]
            producer = threads.submit(append, engine, killed, stored + 1, enough, messages)
            assert enough.wait(60)
            kill(server)
            killed.set()
            for each in sweeps:
                with contextlib.suppress(EngineError):
                    each.result()
            stored = max(stored, producer.result())
        engine.close()
        server.start(NAMES)
        engine = connect(server)

        status = engine.log.status(P0)
        assert status.log_start_offset >= start
        start = status.log_start_offset
        again = engine.produce(P0, _BODY, producer_name="p", sequence_id=stored)
        assert again.duplicate
        browsed = engine.log.browse(P0, 0, 10_000).messages
        offsets = [message.offset for message in browsed]
        assert offsets == list(range(start, status.last_offset + 1))
        ids = [message.sequence_id for message in browsed if message.sequence_id is not None]
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        assert stored <= ids[-1] <= stored + 1
        stored = ids[-1]
        engine.apply_retention()
        assert engine.log.status(P0).aborted_txns == len(engine.log.aborted_index(P0).items)
    assert start > 0
    engine.close()

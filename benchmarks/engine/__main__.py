"""``make bench-engine``; names of topics as arguments choose among them."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import structlog

from benchmarks.engine import consume, finalizing, produce, recovery, size
from benchmarks.engine.peer import Peer
from benchmarks.report import Row, report
from engine import Engine
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from txnconsole.local.postgres import EmbeddedPostgres

_TOPIC = TopicName("public", "default", "bench")
_SYSTEMS = ("used", "empty", "full")
_PARTS = ("coordinator", "broker-1", "broker-2")


def main(wanted: list[str]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="txnconsole-bench-") as directory:
        root = Path(directory)
        (root / "run").mkdir()
        server = EmbeddedPostgres(
            root,
            sockets=root / "run",
            password=secrets.token_urlsafe(12),
            log=root / "postgres.log",
        )
        server.start(f"{system}_{part}" for system in _SYSTEMS for part in _PARTS)
        urls = {_engine(found): found for found in (_urls(server, name) for name in _SYSTEMS)}
        used, empty, full = urls
        try:
            for engine in urls:
                engine.migrate()
            used.topics.create(_TOPIC, TopicSettings(partitions=4))
            broker = used.log.locate(PartitionName(_TOPIC, 0)).database.name
            peer = Peer(urls[used][broker])
            topics: dict[str, Callable[[], list[Row]]] = {
                "produce": lambda: produce.rows(used, peer, _TOPIC),
                "consume": lambda: consume.rows(used, peer, _TOPIC),
                "finalizing": lambda: finalizing.rows(used, _TOPIC),
                "recovery": lambda: recovery.rows(used, urls[used]),
                "size": lambda: size.rows(empty, full, urls),
            }
            chosen = [topics[name] for name in wanted] or list(topics.values())
            load = os.getloadavg()[0]
            found = [row for rows in chosen for row in rows()]
            report("engine", found, load=(load, os.getloadavg()[0]), keep=not wanted)
            peer.close()
        finally:
            for engine in urls:
                engine.close()
            server.stop()


def _urls(server: EmbeddedPostgres, system: str) -> dict[str, str]:
    return {part: server.url(f"{system}_{part}") for part in _PARTS}


def _engine(urls: dict[str, str]) -> Engine:
    brokers = {name: url for name, url in urls.items() if name != "coordinator"}
    return Engine(urls["coordinator"], brokers)


if __name__ == "__main__":
    main(sys.argv[1:])

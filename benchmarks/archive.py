"""The archive of ended transactions at size: ``make bench-archive``.

A million headers of each kind are moved by the engine's own steps. The targets are that an id
costs at most a quarter of a byte for ever, and that the outcome of an archived id costs the same
with 10^6 of them as with 10^4 (design/quality.md, "within 1.3 x of the empty system").
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from pathlib import Path

import psycopg

from benchmarks.report import Row, alternate, at_least, per_second, report
from engine import Engine, EngineSettings
from engine.model.txn_id import TxnID
from txnconsole.local.postgres import EmbeddedPostgres

_NAMES = ("coordinator", "broker_1")
_MANY, _FEW = 1_000_000, 10_000
#: Condition under which transaction ``n`` aborted, by the coordinator that it belongs to.
_KINDS = {
    0: ("none aborted", "false"),
    1: ("a random tenth aborted", "hashint8(n) % 10 = 0"),
    2: ("all aborted", "true"),
    3: ("a random tenth aborted, few", "hashint8(n) % 10 = 0"),
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="txnconsole-bench-") as directory:
        (Path(directory) / "run").mkdir()
        server = EmbeddedPostgres(
            Path(directory),
            sockets=Path(directory) / "run",
            password="bench",  # noqa: S106
            log=Path(directory) / "log",
        )
        server.start(_NAMES)
        engine = Engine(
            server.url("coordinator"),
            {"broker-1": server.url("broker_1")},
            EngineSettings(archive_after_ms=0),
        )
        try:
            engine.migrate()
            load = os.getloadavg()[0]
            with psycopg.connect(server.url("coordinator"), autocommit=True) as connection:
                rows = [_archived(engine, connection, tc_id) for tc_id in _KINDS]
            rows.append(_asked(engine))
            report("archive", rows, load=(load, os.getloadavg()[0]))
        finally:
            engine.close()
            server.stop()


def _archived(engine: Engine, connection: psycopg.Connection, tc_id: int) -> Row:
    """Move a coordinator's transactions; ids per byte beside the target of four."""
    kind, aborted = _KINDS[tc_id]
    many = _FEW if kind.endswith("few") else _MANY
    connection.execute(
        f"""
        INSERT INTO coordinator.transaction (tc_id, sequence, status, owner, client, properties,
            opened_at, timeout_ms, deadline, decided_at, ended_at)
        SELECT {tc_id}, n, CASE WHEN {aborted} THEN 'ABORTED' ELSE 'COMMITTED' END
            ::coordinator.txn_status, 'owner', '', '{{}}', now(), 1, now(), now(), now()
        FROM generate_series(0, {many - 1}) n
        """.encode()  # noqa: S608
    )
    connection.execute("SELECT set_config('search_path', 'coordinator', false)")
    connection.execute("UPDATE coordinator SET next_sequence = %s WHERE tc_id = %s", [many, tc_id])
    before = _size(connection)
    started = time.perf_counter()
    while engine.archive.move(10_000):
        pass
    seconds = time.perf_counter() - started
    connection.execute("VACUUM archive")
    bytes_per_id = (_size(connection) - before) / many
    print(f"{kind}: {many} moved at {many / seconds:.0f}/s, {bytes_per_id:.4f} bytes an id")
    return at_least(f"ids a byte, {kind}, beside 1", 1 / bytes_per_id, 1, 4)


def _size(connection: psycopg.Connection) -> int:
    """Of what lives: bitmaps as they are compressed, rows' headers and keys, and the index."""
    [found] = connection.execute(
        "SELECT coalesce(sum(60 + pg_column_size(ended) + pg_column_size(aborted)), 0)"
        " + pg_relation_size('archive_pkey') FROM archive"
    ).fetchall()
    return int(found[0])


def _asked(engine: Engine) -> Row:
    """Outcomes a second of one coordinator with many archived, beside one with few."""

    def rate(tc_id: int, issued: int) -> float:
        ids = (TxnID(tc_id, 7919 * n % issued) for n in itertools.count())
        return per_second(lambda: engine.coordinator.outcome(next(ids)), calls=500, units=1)

    many, few = alternate(lambda: rate(1, _MANY), lambda: rate(3, _FEW))
    return at_least("outcomes a second with 10^6 archived, beside 10^4", many, few, 1 / 1.3)


if __name__ == "__main__":
    main()

"""The pipeline beside what it stands on: ``make bench-pipeline`` (design/pipeline.md, its goals).

Reading: one Spark task slot, straight from the brokers, every column of every message laid out,
beside COPY out of PostgreSQL by one process that looks at nothing: of the same entries, by the
bytes that are stored, compressed; and of a table with a row for each message. A slot is a JVM and a
Python worker, and COPY a client and a backend, so both have two processors: what all processes of
either spend is told too. Writing: messages out of Parquet into a topic, exactly once, over HTTP, in
two task slots, beside the engine's own produce of the same messages in one process, in batches as
large as the sink's, and of a thousand, in which design/quality.md measures the engine. Either as
many messages as make a job's own cost small, and few. Auditing: a log of which one open transaction
holds half, on two cores, beside one of a tenth of the length: whether it grows linearly.

``python -m benchmarks.pipeline audit`` measures one of the three alone; so do ``read``, ``write``.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql

from benchmarks.processors import processor_seconds
from benchmarks.report import Row, alternate, at_least, report
from benchmarks.stuck_log import with_a_stuck_transaction
from engine import Engine
from engine.model.message import NewMessage
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction
from tests.server import served
from txnconsole import connection_strings
from txnconsole.local.postgres import EmbeddedPostgres
from txnconsole.pipeline.audit.log_copy import LogCopy, mark_whole
from txnconsole.pipeline.audit.report import audit
from txnconsole.pipeline.outgoing import BATCH_MESSAGES
from txnconsole.pipeline.session import build_session, stop_session

_OUTPUT = "public/default/bench-output"
_IN_BATCH = 500
#: How many batches a topic has that is read, and how often it is before anything is measured: a
#: JVM's compiler is done after some ten million rows.
_BATCHES = (12_000, 3000)
_WARMING = 2
_PRODUCED = 200_000
#: How often a write has these messages, and how many a batch has of those beside it.
_WRITES = ((10, BATCH_MESSAGES), (1, BATCH_MESSAGES), (10, 1000))
_ROUNDS = 3
_TURNS = 2_500_000
_CREATE_ROWS = """
CREATE UNLOGGED TABLE {} (
    message_id text, "offset" bigint, partition integer, kind text, txn_id text, key text,
    payload bytea, properties jsonb, event_time timestamptz, publish_time timestamptz,
    producer_name text, sequence_id bigint, topic text, readable_at bigint
)
"""
_INSERT_ROWS = """
INSERT INTO {}
SELECT
    '1:' || n / 500 * 500 || ':0:' || n %% 500, n, 0, 'DATA', NULL, n %% 40,
    convert_to(
        '{{"carrier":"UA","flight":' || n %% 500 || ',"dep_delay":' || n / 500 %% 97
        || ',"arr_delay":' || n %% 61 || ',"note":"' || repeat(left(md5(n::text), 16), 5) || '"}}',
        'UTF8'
    ),
    '{{}}', NULL, now(), NULL, NULL, %(topic)s, NULL
FROM generate_series(0, %(messages)s - 1) n
"""


def main(only: list[str]) -> None:
    wanted = only or ["read", "write", "audit"]
    load = os.getloadavg()[0]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="txnconsole-bench-") as directory:
        root = Path(directory)
        if wanted != ["audit"]:
            rows += _topics(root, wanted)
        if "audit" in wanted:
            rows.append(_auditing(root))
    name = "-".join(["pipeline", *only])
    report(name, rows, load=(load, os.getloadavg()[0]))


def _topics(root: Path, wanted: list[str]) -> list[Row]:
    """Reading and writing topics of a product that runs."""
    (root / "run").mkdir()
    postgres = EmbeddedPostgres(
        root,
        sockets=root / "run",
        password="bench",  # noqa: S106 - of a server that lives for minutes, on a socket
        log=root / "postgres.log",
    )
    postgres.start([])
    rows: list[Row] = []
    try:
        with served(postgres, root) as product:
            urls = connection_strings.split(product.environment["BROKER_DATABASE_URLS"])
            brokers = {f"broker-{number}": url for number, url in enumerate(urls, 1)}
            engine = Engine(product.environment["DATABASE_URL"], brokers)
            if "read" in wanted:
                rows += _reading(engine, urls, postgres.url("postgres"))
            if "write" in wanted:
                connection = {"url": product.url, "token": product.token("admin")}
                rows += _writing(root, engine, connection)
            engine.close()
    finally:
        postgres.stop()
    return rows


def _fill(engine: Engine, batches: int) -> TopicName:
    topic = TopicName("public", "default", f"bench-{batches}")
    engine.topics.create(topic, TopicSettings(partitions=2))
    for number in range(batches):
        engine.produce(PartitionName(topic, number % 2), _messages(number))
    return topic


def _messages(seed: int) -> list[NewMessage]:
    return [
        NewMessage(
            payload=b'{"carrier":"UA","flight":%d,"dep_delay":%d,"arr_delay":%d,"note":"%s"}'
            % (index, seed % 97, index % 61, f"{hash((seed, index)):x}".encode() * 5),
            key=f"{index % 40}",
        )
        for index in range(_IN_BATCH)
    ]


class _Timed:
    """Work on so many units, a second of the clock; keeps what all processes spent on it."""

    def __init__(self, work: Callable[[], object], units: float) -> None:
        self.work, self._units = work, units
        self._spent: list[float] = []

    def __call__(self) -> float:
        before, started = processor_seconds(), time.perf_counter()
        self.work()
        seconds = time.perf_counter() - started
        self._spent.append(processor_seconds() - before)
        return self._units / seconds

    @property
    def by_processors(self) -> float:
        """Units a second of processor time, in the median."""
        return self._units / statistics.median(self._spent)


def _reading(engine: Engine, urls: list[str], owned: str) -> list[Row]:
    """``owned`` is a database of the server's owner: the product's own logins may make no table."""
    spark = build_session("bench", master="local[1]", short_job=False)

    def reading(topic: str) -> Callable[[], None]:
        options = {"brokers": ",".join(urls), "topic": topic}
        frame = spark.read.format("txnconsole").options(**options).load()
        return frame.write.format("noop").mode("overwrite").save

    rows: list[Row] = []
    for batches in _BATCHES:
        topic, messages = _fill(engine, batches), batches * _IN_BATCH
        read = _Timed(reading(str(topic)), messages)
        copy = _Timed(partial(_copied, owned, _lay_out(owned, topic, messages)), messages)
        for _ in range(_WARMING):
            read.work()
            copy.work()
        rows += _beside(read, copy, "messages", f"{messages:,} rows")
    stored = [partial(_copied, url, "broker.entry") for url in urls]
    megabytes = sum(copied() for copied in stored) / 1e6
    read = _Timed(reading("public/default/bench-*"), megabytes)
    copy = _Timed(lambda: [copied() for copied in stored], megabytes)
    rows += _beside(read, copy, "MB", "what is stored")
    stop_session(spark)
    return rows


def _beside(read: _Timed, copy: _Timed, unit: str, of: str) -> list[Row]:
    by_spark, by_copy = alternate(read, copy, rounds=_ROUNDS)
    spent, beside = read.by_processors, copy.by_processors
    what = f"read, one slot, beside COPY of {of}"
    return [
        at_least(f"{unit} a second {what}", by_spark, by_copy, 0.9),
        at_least(f"{unit} a second of processor time {what}", spent, beside, 0.9),
    ]


def _lay_out(url: str, topic: TopicName, messages: int) -> str:
    """Write as many messages down as rows of a table, with the columns that a read gives."""
    table = f"laid_out_{messages}"
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL(_CREATE_ROWS).format(sql.Identifier(table)))
        statement = sql.SQL(_INSERT_ROWS).format(sql.Identifier(table))
        connection.execute(statement, {"topic": str(topic), "messages": messages})
    return table


def _copied(url: str, table: str) -> int:
    """How many bytes COPY gives of a table, all looked at by nobody."""
    with (
        psycopg.connect(url) as connection,
        connection.cursor() as cursor,
        cursor.copy(
            sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(sql.Identifier(*table.split(".")))
        ) as copy,
    ):
        return sum(len(part) for part in copy)


def _writing(root: Path, engine: Engine, connection: dict[str, str]) -> list[Row]:
    topic = TopicName(*_OUTPUT.split("/"))
    engine.topics.create(topic, TopicSettings(partitions=2))
    messages = [message for seed in range(_PRODUCED // _IN_BATCH) for message in _messages(seed)]
    columns = {
        "payload": [message.payload for message in messages],
        "key": [message.key for message in messages],
    }
    most = max(times for times, _ in _WRITES)
    files = [str(root / f"{number}.parquet") for number in range(most)]
    for file in files:
        pq.write_table(pa.table(columns), file)
    spark = build_session("bench", short_job=False)

    def written(times: int) -> float:
        frame = spark.read.parquet(*files[:times])
        started = time.perf_counter()
        frame.write.format("txnconsole").options(**connection, topic=_OUTPUT).mode("append").save()
        return times * _PRODUCED / (time.perf_counter() - started)

    def produced(times: int, in_batch: int) -> float:
        started = time.perf_counter()
        transaction = engine.coordinator.open(owner="bench")
        for _ in range(times):
            for lower in range(0, _PRODUCED, in_batch):
                partition = PartitionName(topic, lower // in_batch % 2)
                part = messages[lower : lower + in_batch]
                engine.produce(partition, part, txn_id=transaction.txn_id)
        engine.coordinator.end(transaction.txn_id, TxnAction.COMMIT)
        return times * _PRODUCED / (time.perf_counter() - started)

    written(most)  # And everything is warm.
    rows: list[Row] = []
    for times, in_batch in _WRITES:
        by_spark, by_engine = alternate(
            partial(written, times), partial(produced, times, in_batch), rounds=_ROUNDS
        )
        what = f"messages a second into the sink, {times * _PRODUCED:,} at once"
        beside = f"beside produce in batches of {in_batch:,}"
        rows.append(at_least(f"{what}, {beside}", by_spark, by_engine, 0.7))
    stop_session(spark)
    return rows


def _auditing(root: Path) -> Row:
    spark = build_session("bench", master="local[2]", short_job=False)
    for turns in (_TURNS, _TURNS // 10):
        directory = root / str(turns)
        for name, frame in with_a_stuck_transaction(spark, turns).tables.items():
            frame.write.parquet(str(directory / name))
        mark_whole(directory)

    def audited(turns: int) -> float:
        copy = LogCopy.at(spark, root / str(turns))
        started = time.perf_counter()
        found = audit(spark, copy, lambda _name, _done, _total: None)
        assert found.holds
        assert found.entries == 4 * turns
        return 4 * turns / (time.perf_counter() - started)

    audited(_TURNS // 10)  # Everything is warm.
    long, short = alternate(lambda: audited(_TURNS), lambda: audited(_TURNS // 10), rounds=1)
    stop_session(spark)
    return at_least("entries a second audited, 10^7 beside a tenth", long, short, 0.9)


if __name__ == "__main__":
    main(sys.argv[1:])

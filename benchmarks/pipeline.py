"""The pipeline beside what it stands on: ``make bench-pipeline`` (design/pipeline.md, its goals).

Reading: one Spark task slot, straight from the brokers, every column of every message laid out,
beside COPY of the same entries out of PostgreSQL by one process that looks at nothing. Writing: a
DataFrame into a topic, exactly once, over HTTP, beside the engine's own produce in one process, in
batches as large as the sink's. Auditing: a log of which one open transaction holds half, on two
cores, beside one of a quarter of the length, which tells whether it grows linearly.

``python -m benchmarks.pipeline audit`` measures auditing alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import psycopg
from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import Row, alternate, at_least, report
from engine import Engine
from engine.model.message import NewMessage
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction
from tests.pipeline.audit.stuck import with_a_stuck_transaction
from tests.server import served
from txnconsole.local.postgres import EmbeddedPostgres
from txnconsole.pipeline.audit.log_copy import LogCopy
from txnconsole.pipeline.audit.report import audit
from txnconsole.pipeline.session import build_session, stop_session

_TOPIC = TopicName("public", "default", "bench")
_OUTPUT = "public/default/bench-output"
_BATCHES, _IN_BATCH = 1200, 500
_WRITTEN = 200_000
_ROUNDS = 3
_SINK_BATCH = 1000
_TURNS = 250_000


def main(only: list[str]) -> None:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="txnconsole-bench-") as directory:
        root = Path(directory)
        if only == ["audit"]:
            report("pipeline-audit", [_auditing(root)], load=(load, os.getloadavg()[0]))
            return
        (root / "run").mkdir()
        postgres = EmbeddedPostgres(
            root,
            sockets=root / "run",
            password="bench",  # noqa: S106 - of a server that lives for minutes, on a socket
            log=root / "postgres.log",
        )
        postgres.start([])
        try:
            with served(postgres, root) as product:
                urls = product.environment["BROKER_DATABASE_URLS"].split(",")
                brokers = {f"broker-{number}": url for number, url in enumerate(urls, 1)}
                engine = Engine(product.environment["DATABASE_URL"], brokers)
                _fill(engine)
                spark = build_session("bench", master="local[1]", short_job=False)
                connection = {"url": product.url, "token": product.token("admin")}
                rows = [_reading(spark, urls), _writing(spark, engine, connection)]
                stop_session(spark)
                engine.close()
        finally:
            postgres.stop()
        rows.append(_auditing(root))
    report("pipeline", rows, load=(load, os.getloadavg()[0]))


def _fill(engine: Engine) -> None:
    engine.topics.create(_TOPIC, TopicSettings(partitions=2))
    for number in range(_BATCHES):
        engine.produce(PartitionName(_TOPIC, number % 2), _messages(number))


def _messages(seed: int) -> list[NewMessage]:
    return [
        NewMessage(
            payload=b'{"carrier":"UA","flight":%d,"dep_delay":%d,"arr_delay":%d,"note":"%s"}'
            % (index, seed % 97, index % 61, f"{hash((seed, index)):x}".encode() * 5),
            key=f"{index % 40}",
        )
        for index in range(_IN_BATCH)
    ]


def _reading(spark: SparkSession, urls: list[str]) -> Row:
    frame = (
        spark.read.format("txnconsole").options(brokers=",".join(urls), topic=str(_TOPIC)).load()
    )
    assert frame.count() == _BATCHES * _IN_BATCH  # And everything is warm.

    def copied() -> float:
        started = time.perf_counter()
        return _stored(urls) / (time.perf_counter() - started) / 1e6

    stored = _stored(urls)

    def read() -> float:
        started = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return stored / (time.perf_counter() - started) / 1e6

    by_spark, by_copy = alternate(read, copied, rounds=_ROUNDS)
    return at_least("stored MB a second read, one slot, beside COPY", by_spark, by_copy, 0.9)


def _stored(urls: list[str]) -> int:
    """How many bytes COPY gives of all entries."""
    size = 0
    for url in urls:
        with (
            psycopg.connect(url) as connection,
            connection.cursor() as cursor,
            cursor.copy("COPY broker.entry TO STDOUT (FORMAT binary)") as copy,
        ):
            size += sum(len(part) for part in copy)
    return size


def _writing(spark: SparkSession, engine: Engine, connection: dict[str, str]) -> Row:
    engine.topics.create(TopicName(*_OUTPUT.split("/")), TopicSettings(partitions=2))
    messages = [message for seed in range(400) for message in _messages(seed)]
    frame: DataFrame = spark.range(0, _WRITTEN, 1, 2).selectExpr(
        'concat(\'{"carrier":"UA","flight":\', id, \',"note":"\', repeat(hex(hash(id)), 10),'
        " '\"}') payload",
        "cast(id % 40 as string) key",
    )

    def written() -> float:
        started = time.perf_counter()
        frame.write.format("txnconsole").options(**connection, topic=_OUTPUT).mode("append").save()
        return _WRITTEN / (time.perf_counter() - started)

    def produced() -> float:
        started = time.perf_counter()
        transaction = engine.coordinator.open(owner="bench")
        for lower in range(0, _WRITTEN, _SINK_BATCH):
            partition = PartitionName(TopicName(*_OUTPUT.split("/")), lower // _SINK_BATCH % 2)
            part = messages[lower : lower + _SINK_BATCH]
            engine.produce(partition, part, txn_id=transaction.txn_id)
        engine.coordinator.end(transaction.txn_id, TxnAction.COMMIT)
        return _WRITTEN / (time.perf_counter() - started)

    by_spark, by_engine = alternate(written, produced, rounds=_ROUNDS)
    return at_least("messages a second into the sink, beside produce", by_spark, by_engine, 0.7)


def _auditing(root: Path) -> Row:
    spark = build_session("bench", master="local[2]", short_job=False)
    for turns in (_TURNS, _TURNS // 4):
        for name, frame in with_a_stuck_transaction(spark, turns).tables.items():
            frame.write.parquet(str(root / str(turns) / name))

    def audited(turns: int) -> float:
        copy = LogCopy.at(spark, root / str(turns))
        started = time.perf_counter()
        found = audit(spark, copy, lambda _name, _done, _total: None)
        assert found.holds
        assert found.entries == 4 * turns
        return 4 * turns / (time.perf_counter() - started)

    audited(_TURNS // 4)  # Everything is warm.
    long, short = alternate(lambda: audited(_TURNS), lambda: audited(_TURNS // 4), rounds=1)
    stop_session(spark)
    return at_least("entries a second audited, 10^6 beside a quarter", long, short, 0.9)


if __name__ == "__main__":
    main(sys.argv[1:])

"""The job as Spark runs it, and Spark's reads of what it has moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine import Engine
from tests.engine.support import P0, abort, batch, commit, fetched, make_topic, noise, open_txn
from tests.support import databases as test_databases
from txnconsole.pipeline import register
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.jobs import offload
from txnconsole.pipeline.jobs.run import Run
from txnconsole.pipeline.offload.store import Store

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(500)]


def test_spark_moves_segments_and_reads_on_from_their_files(
    spark: SparkSession, engine: Engine, databases: test_databases.Databases, tmp_path: Path
) -> None:
    make_topic(engine, segment_max_messages=4)
    for number in range(6):
        txn_id = open_txn(engine)
        for part in range(2):
            engine.produce(P0, batch(noise(number * 2 + part, 200).hex()), txn_id=txn_id)
        (abort if number % 3 == 2 else commit)(engine, txn_id)
    wanted = fetched(engine)
    environment = {"BROKER_DATABASE_URLS": ",".join(databases.broker_urls)}
    found = Databases.of({"offloadDirectory": str(tmp_path)}, environment)
    run = Run("offload", supervised=False)
    totals = offload.offload(spark, found, Store(str(tmp_path)), run, older_than_hours=0)
    assert (totals["segments"], totals["changed"]) == (len(list(tmp_path.iterdir())), 0)
    assert totals["segments"] >= 3
    again = offload.offload(spark, found, Store(str(tmp_path)), run, older_than_hours=0)
    assert again["segments"] == 0

    register(spark)
    reader = spark.read.format("txnconsole").options(topic=str(P0.topic), **found.options())
    for order in ("published", "committed"):
        rows = reader.option("order", order).load().collect()
        assert [bytes(row.payload).decode() for row in rows] == wanted

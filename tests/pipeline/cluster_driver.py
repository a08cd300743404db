"""A driver for a cluster: copies a topic, read straight from the brokers, exactly once, although
one of its executors is killed on the way.

Run as a program by test_cluster.py: ``MASTER SOURCE TARGET``; everything else is its environment.
The classes are also imported by Spark's workers.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from txnconsole.pipeline.datasource import TopicDataSource
from txnconsole.pipeline.session import build_session, stop_session
from txnconsole.pipeline.writer import BatchWriter, TopicWrite, Written

_CONFIG = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class DyingWriter(BatchWriter):
    """The product's writer; the first attempt of one task ends its whole executor once it has
    written everything and told nobody."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        written = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            os.kill(_parent(os.getppid()), signal.SIGKILL)
            signal.pause()
        return written


class DyingDataSource(TopicDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def writer(self, schema: StructType, overwrite: bool) -> DyingWriter:
        del schema, overwrite
        return DyingWriter(TopicWrite.of_batch(self.options))


def _parent(pid: int) -> int:
    """Of Spark's Python daemon, from which workers are forked: the executor's JVM."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main(master: str, source: str, target: str) -> None:
    spark = build_session("cluster", master=master, config=_CONFIG)
    spark.dataSource.register(DyingDataSource)
    frame = (
        spark.read.format("txnconsole")
        .options(topic=source, columns="payload", bytesPerTask="4000")
        .load()
    )
    (
        frame.write.format("dying")
        .options(topic=target, sink=f"cluster-{target}", batch="0")
        .mode("append")
        .save()
    )
    stop_session(spark)


if __name__ == "__main__":
    # Spark's workers import the classes by the name of this module, which is not __main__.
    from tests.pipeline import cluster_driver

    cluster_driver.main(*sys.argv[1:])

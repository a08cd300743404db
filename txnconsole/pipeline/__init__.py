"""Spark over the topics of a txnconsole server: a data source, an exactly-once sink, jobs.

Purpose: read topics as DataFrames, in batches and as streams, and write DataFrames to topics, with
READ_COMMITTED on the way in and exactly-once on the way out (design/pipeline.md).

States: the transaction of a task attempt is OPEN while the attempt writes and until the driver
decides; the driver's decision on the group makes it COMMITTING or ABORTING; the engine does the
rest.

Invariants:
- A stream never reads above the stable position, so reading a range twice gives the same messages.
  (In committed order it never reads above the end of the log, which has the same effect.)
- A batch's rows become visible by one atomic decision, made once under the key ``sink/batch``.
- Only transactions with this sink's client name and owner are ended, never those of other programs.

After a crash the transactions of attempts whose process has ended stay OPEN. READ_COMMITTED readers
of the output topic do not get past them until the sink's next run or commit aborts them, or their
timeout passes.

No server code is imported here, so executors need no more than this package and its libraries.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from txnconsole.pipeline.broker.raw_log import RawLogDataSource
from txnconsole.pipeline.datasource import TopicDataSource
from txnconsole.pipeline.garbage import keep_imports

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``format("txnconsole")`` and ``format("txnconsole-log")`` known to a session.

    It also turns on filter pushdown for Python sources, without which Spark refuses to run sources
    that support it.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(TopicDataSource)
    spark.dataSource.register(RawLogDataSource)


keep_imports()

"""Spark over the topics of a txnconsole server: a data source, an exactly-once sink, jobs.

Purpose: read topics as DataFrames, in batches and as streams, and write DataFrames to topics, with
READ_COMMITTED on the way in and exactly-once on the way out (design/pipeline.md).

States: a task attempt's transaction is OPEN while the attempt writes and until the driver decides;
the driver's group decision makes it COMMITTING or ABORTING; the engine does the rest.

Invariants:
- A stream is never given an offset above the stable position, so a range read twice is the same.
- A batch's rows become visible by one atomic decision, made once under the key ``sink/batch``.
- No other program's transaction is ended: only those under this sink's client name.

After a crash: transactions of dead attempts stay OPEN. They hide what stands above them from
READ_COMMITTED readers of the output topic until the sink's next commit ends them, or their timeout.
Nothing here imports server code, so executors need no more than this package and its libraries.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from txnconsole.pipeline.broker.raw_log import RawLogDataSource
from txnconsole.pipeline.datasource import TopicDataSource
from txnconsole.pipeline.garbage import keep_imports

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``format("txnconsole")`` and ``format("txnconsole-log")`` known to a session.

    Turns on that Spark tells Python sources its filters: it refuses those that ask, otherwise.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(TopicDataSource)
    spark.dataSource.register(RawLogDataSource)


keep_imports()

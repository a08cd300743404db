"""Keep a streaming query running: restart it after failures, end it cleanly on a signal.

Spark does not restart a query that failed, and a restart of the server makes it fail. Everything
that a query does is exactly-once, so starting it again is always right, unless it is refused for
good: then the command ends with status 1 and says why.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from txnconsole.client import TxnConsoleError
from txnconsole.pipeline.java import JavaNotFound
from txnconsole.pipeline.jobs.run import SparkFailed, brief, spark_for

#: What no restart of the query changes: codes of the contract (design/api.md), and a position in
#: the checkpoint that the topic does not have.
_FINAL = (
    "ProducerFenced",
    "NotAuthenticated",
    "PermissionDenied",
    "InvalidRequest",
    "PositionLost",
)
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 30.0
#: After so many seconds a query has recovered: its next failure counts as the first.
_RECOVERED = 60.0
_POLL_SECONDS = 1

_log = structlog.get_logger(__name__)

Start = Callable[[SparkSession], StreamingQuery]


@dataclass(frozen=True)
class StreamingJob:
    """A query by name: how to start it, and what to tidy up after it has ended."""

    name: str
    start: Start
    tidy: Callable[[], None]


def run_command(job: StreamingJob) -> int:
    """Run a job in its own Spark until it ends, or a signal ends it; returns the exit status.

    SIGTERM and SIGINT end it within seconds. When this returns, the JVM is gone.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # It tells of every request.
    stop = threading.Event()
    _stop_on_signals(stop)
    try:
        with spark_for(job.name) as spark:
            _stop_on_signals(stop)  # Spark has put a handler of its own in place.
            return keep_running(job, spark, stop)
    except (SparkFailed, PySparkException, Py4JError, OSError, JavaNotFound) as error:
        if stop.is_set():
            return 0  # A signal to the whole process group ends the JVM at the same time.
        reason = str(error) if isinstance(error, SparkFailed) else brief(error)
        _log.error("spark_lost", job=job.name, error=reason)
        return 1


def keep_running(job: StreamingJob, spark: SparkSession, stop: threading.Event) -> int:
    """Run the query until it ends by itself (AvailableNow) or ``stop`` is set; exit status."""
    delay = _FIRST_DELAY
    while not stop.is_set():
        started = time.monotonic()
        try:
            _run_once(job, spark, stop)
            return 0
        except (PySparkException, Py4JJavaError, TxnConsoleError) as error:
            reason = brief(error)
            if any(code in f"{type(error).__name__}: {error}" for code in _FINAL):
                _log.error("query_refused", job=job.name, error=reason)
                return 1
            delay = _FIRST_DELAY if time.monotonic() - started > _RECOVERED else delay
            _log.warning("query_failed", job=job.name, retry_in_s=delay, error=reason)
            stop.wait(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
    return 0


def follow_to_end(query: StreamingQuery, tell: Callable[[int], None]) -> None:
    """Wait for a query that ends by itself, reporting how many rows it has read so far.

    Raises:
        PySparkException: it failed.
    """
    rows: dict[int, int] = {}
    ended: bool | None = False
    while not ended:
        ended = query.awaitTermination(_POLL_SECONDS)
        rows |= {batch.batchId: batch.numInputRows for batch in query.recentProgress}
        tell(sum(rows.values()))


def _run_once(job: StreamingJob, spark: SparkSession, stop: threading.Event) -> None:
    query = job.start(spark)
    _log.info("query_started", job=job.name, query_id=query.id)
    try:
        while query.isActive and not stop.is_set():
            query.awaitTermination(_POLL_SECONDS)
        if not stop.is_set():
            query.awaitTermination()  # Raises what ended it.
    finally:
        _stop_query(query)
        job.tidy()


def _stop_query(query: StreamingQuery) -> None:
    try:
        query.stop()
    except (PySparkException, Py4JError) as error:
        # It waits for a server that is away. The end of the session ends it, at any point safely.
        _log.info("query_stops_late", query_id=query.id, error=brief(error))


def _stop_on_signals(stop: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

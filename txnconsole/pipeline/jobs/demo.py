"""Delays per carrier and hour, out of the replayed flights.

Reads ``public/default/flights`` READ_COMMITTED as a stream and writes to
``public/default/carrier-delays``, exactly once.

Each message that it writes is an additive fact: what one micro-batch saw of one carrier in one
scheduled hour. The key is the carrier, the payload JSON::

    {"carrier": "UA", "time_hour": "2013-01-01T10:00:00Z", "flights": 12, "cancelled": 1,
     "delayed": 5, "dep_delay_sum": 84, "dep_delay_count": 11, "arr_delay_sum": 40,
     "arr_delay_count": 10}

``flights`` counts the messages, ``cancelled`` those without a departure time, ``delayed`` those
that arrived late (``arr_delay`` above 0); the sums are minutes over the flights that have such a
value, which ``*_count`` counts. Sums, not averages: the facts of several micro-batches add up, so
over all committed messages of the topic each (carrier, hour) sums to exactly what a group-by over
all committed flights gives, however the stream was cut into batches.

Run it with ``python -m txnconsole.pipeline.jobs.demo``; the server and token come from the options
or from ``TXNCONSOLE_URL`` and ``TXNCONSOLE_TOKEN``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from txnconsole import logs
from txnconsole.client import (
    Client,
    RetryPolicy,
    TopicNotFound,
    TransportOptions,
    TxnConsoleError,
)
from txnconsole.pipeline.jobs import environment
from txnconsole.pipeline.jobs.run import (
    DONE,
    WRONG_OPTIONS,
    Run,
    WrongOptions,
    run_job,
    spark_for,
    whole_number,
)
from txnconsole.pipeline.jobs.streaming import StreamingJob, follow_to_end, run_command
from txnconsole.pipeline.sink import abort_leftovers
from txnconsole.pipeline.writer import TopicWrite

FLIGHTS = "public/default/flights"
CARRIER_DELAYS = "public/default/carrier-delays"
SINK = "carrier-delays"
_OUTPUT_PARTITIONS = 1
#: The retention of the output, so that the demo can run for ever.
_OUTPUT_RETENTION_BYTES = 64 * 1024 * 1024
_FLIGHT = "carrier string, time_hour timestamp, dep_time double, dep_delay double, arr_delay double"
_FACTS = (
    "carrier",
    "time_hour",
    "flights",
    "cancelled",
    "delayed",
    "dep_delay_sum",
    "dep_delay_count",
    "arr_delay_sum",
    "arr_delay_count",
)


def carrier_delays(messages: DataFrame) -> DataFrame:
    """Turn flights (messages) into facts (messages with ``key`` and ``payload``).

    A message that is not a flight, because it has no carrier or no hour, is left out.
    """
    flight = sf.from_json(sf.col("payload").cast("string"), _FLIGHT)
    facts = (
        messages.select(flight.alias("flight"))
        .select("flight.*")
        .where("carrier is not null and time_hour is not null")
        .groupBy("carrier", "time_hour")
        .agg(
            sf.count("*").alias("flights"),
            sf.count_if(sf.col("dep_time").isNull()).alias("cancelled"),
            sf.count_if(sf.col("arr_delay") > 0).alias("delayed"),
            _total("dep_delay").alias("dep_delay_sum"),
            sf.count("dep_delay").alias("dep_delay_count"),
            _total("arr_delay").alias("arr_delay_sum"),
            sf.count("arr_delay").alias("arr_delay_count"),
        )
    )
    payload = sf.to_json(sf.struct(*_FACTS), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ssXXX"})
    return facts.select(sf.col("carrier").alias("key"), payload.alias("payload"))


def _total(minutes: str) -> Column:
    """A sum as a whole number: delays are whole minutes, and no value at all sums to 0."""
    return sf.coalesce(sf.sum(minutes).cast("long"), sf.lit(0))


_log = structlog.get_logger(__name__)


class CarrierDelays:
    """The streaming query of this job, on one server."""

    def __init__(self, options: argparse.Namespace) -> None:
        connection = environment.server(options)
        self._server = {"url": connection.url, "token": connection.token}
        self._options = options
        self._sink = TopicWrite.of_stream(
            self._server | {"topic": CARRIER_DELAYS, "sink": SINK}
        ).sink
        # The job as a whole is tried again; trying a call again would only delay its end.
        once = TransportOptions(retry=RetryPolicy(deadline=0))
        self._client = Client(connection.url, connection.token, once)

    def job(self) -> StreamingJob:
        return StreamingJob(SINK, self.start, self.tidy)

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query. Both topics exist then, and no attempt of an earlier run of this sink is
        open."""
        self.require_topics()
        abort_leftovers(self._client, self._sink)
        flights = (
            spark.readStream.format("txnconsole")
            .options(**self._server, topic=FLIGHTS, columns="payload")
            .option("maxMessagesPerTrigger", self._options.max_messages)
            .load()
        )
        writer = (
            flights.writeStream.queryName(SINK)
            .foreachBatch(self._write)
            .option("checkpointLocation", str(self._options.checkpoint))
        )
        if self._options.available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._options.interval} seconds").start()

    def require_topics(self) -> None:
        """See that the input is there, and that the output is.

        Raises:
            TopicNotFound: there are no flights.
            PermissionDenied: there is no output, and the token makes none.
        """
        self._client.topic(FLIGHTS)
        try:
            self._client.topic(CARRIER_DELAYS)
        except TopicNotFound:
            self._client.create_topic(
                CARRIER_DELAYS,
                partitions=_OUTPUT_PARTITIONS,
                retention_bytes=_OUTPUT_RETENTION_BYTES,
            )

    def _write(self, flights: DataFrame, batch: int) -> None:
        """Write one micro-batch's facts; repeating a batch after a crash changes nothing."""
        context = flights.sparkSession.sparkContext
        (
            carrier_delays(flights)
            .write.format("txnconsole")
            .options(**self._server, topic=CARRIER_DELAYS, sink=SINK, batch=str(batch))
            .option("guard", context.getLocalProperty("sql.streaming.queryId"))
            .option("checkpointLocation", str(self._options.checkpoint))
            .mode("append")
            .save()
        )

    def tidy(self) -> None:
        """Leave no transaction open: it would hold back the readers of the output."""
        try:
            abort_leftovers(self._client, self._sink)
        except TxnConsoleError as error:
            # The server is away; the next start does this again.
            _log.info("leftovers_kept", sink=SINK, error=str(error))


class CheckpointHeld(Exception):
    """Another process uses the checkpoint."""


@contextlib.contextmanager
def _held(checkpoint: Path) -> Iterator[None]:
    """Lock a checkpoint for this process: two queries on it would end each other.

    Raises:
        CheckpointHeld: another process has it.
    """
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with checkpoint.with_name(f"{checkpoint.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CheckpointHeld(
                f"Another demo job works on {checkpoint}: what is there is being counted."
            ) from error
        yield


def _work(options: argparse.Namespace, run: Run) -> int:
    """Process what is there, as a pipeline run of the console."""
    try:
        delays = CarrierDelays(options)
        delays.require_topics()  # Before Spark starts.
        with _held(options.checkpoint), spark_for(SINK) as spark:
            run.stage("count", 0, 1)
            try:
                query = delays.start(spark)
                follow_to_end(query, lambda rows: run.figures(rows_in=rows))
            finally:
                delays.tidy()
            run.stage("counted", 1, 1)
    except (ValueError, CheckpointHeld) as error:
        raise WrongOptions(str(error)) from error
    run.result({"target": CARRIER_DELAYS})
    return DONE


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m txnconsole.pipeline.jobs.demo",
        description="Write delays per carrier and hour, exactly once.",
    )
    data = Path(os.environ.get("TXNCONSOLE_DATA") or ".data")
    environment.add_server(parser)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        default=data / "pipeline" / SINK,
        help="directory that holds the query's position (%(default)s)",
    )
    parser.add_argument(
        "--available-now", action="store_true", help="process what is there, then end"
    )
    parser.add_argument(
        "--interval",
        type=whole_number("--interval"),
        default=5,
        help="seconds between batches (%(default)s)",
    )
    parser.add_argument(
        "--max-messages",
        type=whole_number("--max-messages"),
        default=20_000,
        help="in one batch (%(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    options = _parse(arguments)
    if Run.of_environment(SINK).supervised:
        return run_job(SINK, lambda run: _work(options, run))
    try:
        job = CarrierDelays(options).job()
        with _held(options.checkpoint):
            logs.configure(level="info", human=sys.stderr.isatty())
            return run_command(job)
    except (ValueError, CheckpointHeld) as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command's answer to wrong options
        return WRONG_OPTIONS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

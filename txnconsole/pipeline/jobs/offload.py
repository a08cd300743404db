"""Move the batches of sealed segments into Parquet files, from which they are read from then on
(txnconsole.pipeline.offload).

Run it with ``python -m txnconsole.pipeline.jobs.offload``. It reads and writes
``BROKER_DATABASE_URLS`` and ``TXNCONSOLE_OFFLOAD_DIR``, a directory or a URI of an object store,
which the server's processes and Spark's workers must reach under the same name. A run that was
ended early is simply run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import get_type_hints

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.jobs import environment
from txnconsole.pipeline.jobs.run import DONE, Run, WrongOptions, run_job, spark_for, whole_number
from txnconsole.pipeline.offload.files import Written
from txnconsole.pipeline.offload.segments import Segment, due, publish, sweep, write_segment
from txnconsole.pipeline.offload.store import Store

JOB = "offload"
_TYPES = {str: pa.string(), int: pa.int64()}
_SEGMENT = pa.schema([(name, _TYPES[kind]) for name, kind in get_type_hints(Segment).items()])
_FILE = pa.schema([(name, _TYPES[kind]) for name, kind in get_type_hints(Written).items()])
#: How many segments' files are written before the first of them is published.
_AT_ONCE = 16


def files_of(segments: DataFrame, databases: Databases, store: Store) -> DataFrame:
    """Write a file for each segment; the segments with their files."""
    answer = pa.schema([*_SEGMENT, *_FILE])

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                file = write_segment(databases, Segment(**row), store)
                yield pa.RecordBatch.from_pylist([row | file._asdict()], answer)

    return segments.mapInArrow(written, from_arrow_schema(answer))


def offload(
    spark: SparkSession,
    databases: Databases,
    store: Store,
    run: Run,
    *,
    topics: str = "*",
    older_than_hours: int = 24,
) -> dict[str, int]:
    """Offload the segments that are due, the oldest first.

    Returns:
        How many segments, how many bytes of batches, how many bytes of files, and how many
            segments had changed meanwhile and are due again.

    Raises:
        psycopg.Error, pyspark.errors.PySparkException: a broker or the store cannot be read or
            written. What was offloaded before that stays offloaded.
    """
    swept = sweep(databases, store)
    segments = due(databases, topics, older_than_hours)
    totals = {"segments": 0, "bytes": 0, "file_bytes": 0, "changed": 0, "files_swept": swept}
    for begin in range(0, len(segments), _AT_ONCE):
        run.stage("offload", totals["segments"] + totals["changed"], len(segments))
        some = segments[begin : begin + _AT_ONCE]
        frame = spark.createDataFrame(some, from_arrow_schema(_SEGMENT))
        for row in files_of(frame, databases, store).collect():
            segment, written = Segment(*row[: len(_SEGMENT)]), Written(*row[len(_SEGMENT) :])
            if publish(databases, segment, written, store):
                totals["segments"] += 1
                totals["bytes"] += written.data_bytes
                totals["file_bytes"] += written.file_bytes
            else:
                totals["changed"] += 1
        run.figures(rows_in=len(segments), rows_out=totals["segments"])
    run.stage("offloaded", len(segments), len(segments))
    return totals


def _work(options: argparse.Namespace, run: Run) -> int:
    databases = environment.databases(coordinator=False)
    if databases.offload_directory is None:
        raise WrongOptions("Set TXNCONSOLE_OFFLOAD_DIR: the files go there.")
    store = Store(databases.offload_directory)
    with spark_for(JOB) as spark:
        totals = offload(
            spark,
            databases,
            store,
            run,
            topics=options.topics,
            older_than_hours=options.older_than_hours,
        )
    run.result(totals)
    return DONE


def _hours(text: str) -> int:
    return 0 if text == "0" else whole_number("--older-than-hours", most=99_999)(text)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m txnconsole.pipeline.jobs.offload",
        description="Move the batches of sealed segments into Parquet files.",
    )
    parser.add_argument("--topics", default="*", help="a pattern over topics (%(default)s)")
    parser.add_argument(
        "--older-than-hours",
        type=_hours,
        default=24,
        help="only segments that were sealed so many hours ago (%(default)s); 0: all",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    options = _parse(arguments)
    return run_job(JOB, lambda run: _work(options, run))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Compute figures per minute into a table that the console reads (txnconsole.pipeline.metrics).

Run it with ``python -m txnconsole.pipeline.jobs.metrics``; it reads ``BROKER_DATABASE_URLS`` and
reads and writes ``DATABASE_URL``. A run computes whole hours, including the present one, and
replaces their figures, so it may be run again at any time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from txnconsole.pipeline.broker.databases import COORDINATOR, Databases
from txnconsole.pipeline.broker.raw_log import raw
from txnconsole.pipeline.broker.snapshot import Snapshot
from txnconsole.pipeline.jobs import environment
from txnconsole.pipeline.jobs.run import DONE, Run, run_job, spark_for, whole_number
from txnconsole.pipeline.metrics.figures import minute_figures
from txnconsole.pipeline.metrics.store import alone, newest_hour, replace_figures

JOB = "metrics"
_HOUR = timedelta(hours=1)
_RELATIONS = ("entries", "headers", "participants")
_PARTS = 2
#: How many hours a run computes by default.
_LEAST, _MOST = 2, 7 * 24
#: More than a year; as the console has it.
_MOST_ASKED_FOR = 9999


def compute(
    spark: SparkSession,
    databases: Databases,
    run: Run,
    *,
    hours: int | None = None,
) -> int:
    """Compute the newest hours, or those since the last run, and replace their figures.

    Returns:
        How many rows of figures they have.
    """
    run.stage("wait", 0, _PARTS)
    with alone(databases.urls[COORDINATOR]) as session:
        now = databases.now().astimezone(UTC)
        until = now.replace(minute=0, second=0, microsecond=0) + _HOUR
        since = first_hour(until, hours, newest_hour(session))
        with Snapshot.take(databases) as snapshot:
            run.stage("compute", 0, _PARTS)
            relations = {name: raw(spark, snapshot, name, since=since) for name in _RELATIONS}
            rows = minute_figures(spark, relations, since, until, now).collect()
        run.stage("store", 1, _PARTS)
        written = replace_figures(session, rows, since, until)
    run.stage("stored", _PARTS, _PARTS)
    run.figures(rows_out=written, since=since.isoformat(), until=until.isoformat())
    return written


def first_hour(until: datetime, hours: int | None, newest: datetime | None) -> datetime:
    """The first hour to compute: so many hours back, or the newest hour with figures. The hour
    before the present one is always computed again, because commits in it may have become visible
    since."""
    if hours is not None:
        return until - hours * _HOUR
    least = until - _LEAST * _HOUR
    return least if newest is None else max(min(newest, least), until - _MOST * _HOUR)


def _work(options: argparse.Namespace, run: Run) -> int:
    databases = environment.databases()
    with spark_for(JOB) as spark:
        written = compute(spark, databases, run, hours=options.hours)
    run.result({"rows": written})
    return DONE


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m txnconsole.pipeline.jobs.metrics",
        description="Compute figures a minute and put them in the place of what was known.",
    )
    parser.add_argument(
        "--hours",
        type=whole_number("--hours", most=_MOST_ASKED_FOR),
        help="how many hours back, the present one included; default: since the newest hour that is"
        f" known, {_LEAST} at least, {_MOST} at most",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    options = _parse(arguments)
    return run_job(JOB, lambda run: _work(options, run))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

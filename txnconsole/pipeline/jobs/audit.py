"""Recompute from the raw log what the engine says, and compare (txnconsole.pipeline.audit).

Run it with ``python -m txnconsole.pipeline.jobs.audit``. It reads the databases straight, by
``DATABASE_URL`` and ``BROKER_DATABASE_URLS``; a role that may only read is enough. The report goes
to standard output or ``--report``, progress to standard error. Exit status: 0 all holds, 1 it
failed, 2 wrong options, 3 there are findings.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from txnconsole.pipeline.audit.log_copy import LogCopy, require_whole
from txnconsole.pipeline.audit.report import Report, audit
from txnconsole.pipeline.audit.source import take_copy
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.jobs import environment
from txnconsole.pipeline.jobs.run import (
    DONE,
    FOUND,
    Run,
    WrongOptions,
    run_job,
    spark_for,
)

JOB = "audit"
_COPY = "txnconsole-audit-"
_LEFT_FOR_SECONDS = 24 * 3600


def audit_databases(
    spark: SparkSession, databases: Databases, copy: Path, run: Run, *, topics: str = "*"
) -> Report:
    """Take a copy and audit it."""
    taken = take_copy(spark, databases, copy, topics=topics, progress=run.stage)
    return audit(spark, taken, run.stage)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m txnconsole.pipeline.jobs.audit",
        description="Recompute from the raw log what the engine says, and compare.",
    )
    parser.add_argument("--topics", default="*", help="a pattern over topics (%(default)s)")
    parser.add_argument("--report", type=Path, help="where the JSON report goes, not to stdout")
    parser.add_argument("--copy", type=Path, help="keep the copy of the logs in this directory")
    parser.add_argument("--of-copy", type=Path, help="audit a copy that was kept, not the servers")
    return parser.parse_args(arguments)


def _work(options: argparse.Namespace, run: Run) -> int:
    if options.report is not None:
        _require_writable(options.report)
    if options.copy is not None:
        _require_directory(options.copy)
    if options.of_copy is not None:
        _require_copy(options.of_copy)
    databases = None if options.of_copy else environment.databases()
    # A machine for long work takes twice the time to start.
    short = options.topics != "*"
    with spark_for(JOB, short_job=short) as spark, _directory(options.copy) as copy:
        if databases is None:
            report = audit(spark, LogCopy.at(spark, options.of_copy), run.stage)
        else:
            report = audit_databases(spark, databases, copy, run, topics=options.topics)
    run.figures(
        rows_in=report.entries,
        rows_out=sum(report.found.values()),
        unaudited=len(report.unaudited),
    )
    if options.report is not None:
        options.report.write_text(report.to_json(), encoding="utf-8")
    elif not run.supervised:
        print(report.to_json())  # noqa: T201 - a command's answer
    run.result(report.to_dict())
    return DONE if report.holds else FOUND


def _require_writable(report: Path) -> None:
    """Refuse before the work what would lose its result.

    Raises:
        WrongOptions: the report cannot be written there.
    """
    if not report.parent.is_dir():
        raise WrongOptions(f"--report: there is no directory {report.parent}.")
    if report.is_dir():
        raise WrongOptions(f"--report: {report} is a directory; name a file in it.")
    if not os.access(report if report.exists() else report.parent, os.W_OK):
        raise WrongOptions(f"--report: {report} may not be written by this user.")


def _require_directory(copy: Path) -> None:
    """Make the directory of a copy that is to be kept.

    Raises:
        WrongOptions: nothing can be written there.
    """
    try:
        copy.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=copy):
            pass
    except OSError as error:
        raise WrongOptions(f"--copy: {copy} cannot be written: {error.strerror}.") from error


def _require_copy(copy: Path) -> None:
    """Refuse before Spark starts what cannot be audited.

    Raises:
        WrongOptions: there is no copy there, or it was broken off.
    """
    try:
        require_whole(copy)
    except FileNotFoundError as error:
        raise WrongOptions(f"--of-copy: {error}") from error


def _directory(kept: Path | None) -> contextlib.AbstractContextManager[Path]:
    if kept is not None:
        return contextlib.nullcontext(kept)
    return _temporary()


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    place = _place_of_copies(os.environ)
    with tempfile.TemporaryDirectory(prefix=_COPY, dir=place) as directory:
        yield Path(directory)


def _place_of_copies(environ: Mapping[str, str]) -> Path | None:
    """Where a copy is made for a while; a cluster's executors must be able to read it too. On a
    cluster, what a killed audit has left there is deleted a day later; on one machine that is left
    to whoever cleans up temporary files."""
    if not environ.get("TXNCONSOLE_SPARK_MASTER"):
        return None
    place = Path(environ.get("TXNCONSOLE_DATA") or ".data") / "pipeline"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place) as probe:
        before = Path(probe.name).stat().st_mtime - _LEFT_FOR_SECONDS
    for copy in place.glob(f"{_COPY}*"):
        with contextlib.suppress(FileNotFoundError):  # Its audit has ended meanwhile.
            if copy.stat().st_mtime < before:
                shutil.rmtree(copy, ignore_errors=True)
    return place.absolute()


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    options = _parse(arguments)
    return run_job(JOB, lambda run: _work(options, run))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

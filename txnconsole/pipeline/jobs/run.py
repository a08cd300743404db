"""How a batch job tells whoever started it what it does and what came of it.

Alone, a job logs its progress to standard error. Under the product's supervisor, which sets
``TXNCONSOLE_RUN``, it writes one JSON object a line to standard output instead:
``{"stage": "copy", "done": 1, "total": 2}``, ``{"figures": {"rows_in": 10}}``,
``{"result": {...}}`` or ``{"error": "..."}``. The supervisor keeps them with the run; this package
knows no server code. The job ends when its standard input does, which means that the supervisor has
died.

Exit status of every job: 0 done, 1 failed, 2 wrong options, 3 done and something was found.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from typing import Any, BinaryIO, NoReturn

import psycopg
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from txnconsole import logs
from txnconsole.client import TxnConsoleError
from txnconsole.pipeline.broker.topics import PartitionNotReadable
from txnconsole.pipeline.java import JavaNotFound
from txnconsole.pipeline.offload.files import DamagedFile
from txnconsole.pipeline.offload.store import UnknownStore
from txnconsole.pipeline.session import LOCAL_MASTER, build_session, stop_session

DONE, FAILED, WRONG_OPTIONS, FOUND = 0, 1, 2, 3
#: What a shell says of a program that SIGTERM has ended.
_TERMINATED = 128 + signal.SIGTERM
_RUN = "TXNCONSOLE_RUN"
_ERROR_LENGTH = 500
#: How Python's tracebacks, which Spark repeats as text, tell the exception.
_CAUSE = re.compile(r"(?:[a-z_]\w*\.)+[A-Z]\w+: ")

#: What a run fails of by no fault of the program.
_FAILURES = (
    PySparkException,
    Py4JError,
    TxnConsoleError,
    psycopg.Error,
    OSError,
    DamagedFile,
    JavaNotFound,
    PartitionNotReadable,
)

_log = structlog.get_logger(__name__)


class WrongOptions(Exception):
    """What the job was asked for cannot be done; the message says what to ask for."""


@dataclass(frozen=True)
class Run:
    """One run of a job; ``supervised``: its events go to the supervisor."""

    job: str
    supervised: bool

    @classmethod
    def of_environment(cls, job: str) -> Run:
        return cls(job, supervised=_RUN in os.environ)

    def stage(self, name: str, done: int, total: int) -> None:
        """A part of the work begins (or has ended): ``done`` of ``total`` parts are behind it."""
        self._tell("stage", {"stage": name, "done": done, "total": total})

    def figures(self, **figures: Any) -> None:
        """What is known by now, such as ``rows_in``; a later value replaces an earlier one."""
        self._tell("figures", {"figures": figures})

    def result(self, result: Mapping[str, Any]) -> None:
        """What the run answers; the last word of a run that is done."""
        if self.supervised:
            _write({"result": result})

    def failed(self, reason: str) -> None:
        self._tell("failed", {"error": reason})

    def _tell(self, event: str, facts: Mapping[str, Any]) -> None:
        if self.supervised:
            _write(facts)
        else:
            _log.info(event, job=self.job, **facts)


def run_job(job: str, work: Callable[[Run], int]) -> int:
    """Make this process the job's, and do its work; returns the exit status."""
    logs.configure(level="info", human=sys.stderr.isatty())
    run = Run.of_environment(job)
    signal.signal(signal.SIGTERM, _terminate)
    if run.supervised:
        threading.Thread(
            # Unbuffered: a lock that a daemon thread holds aborts Python's end.
            target=end_at_end_of,
            args=(FileIO(0, closefd=False), _end_this),
            daemon=True,
        ).start()
    return outcome(run, work)


def outcome(run: Run, work: Callable[[Run], int]) -> int:
    """Do a job's work, and turn what it raises into an exit status and one line."""
    try:
        return work(run)
    except (WrongOptions, UnknownStore) as error:
        run.failed(str(error))
        return WRONG_OPTIONS
    except _FAILURES as error:
        run.failed(brief(error))
        return FAILED


@contextlib.contextmanager
def spark_for(job: str, *, short_job: bool = True) -> Iterator[SparkSession]:
    """A Spark of this job's own, on ``TXNCONSOLE_SPARK_MASTER`` or here; its JVM ends with it."""
    master = os.environ.get("TXNCONSOLE_SPARK_MASTER") or LOCAL_MASTER
    spark = build_session(job, master=master, short_job=short_job)
    try:
        yield spark
    finally:
        stop_session(spark)


def brief(error: Exception) -> str:
    """The one line of an error that names the cause; the rest of Spark's are stack traces."""
    text = f"{type(error).__name__}: {error}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if _CAUSE.match(line)]
    return (causes[-1] if causes else lines[0])[:_ERROR_LENGTH]


def end_at_end_of(source: BinaryIO | FileIO, end: Callable[[], None]) -> None:
    """Wait until the other end of a pipe that nobody writes to closes: whoever held it has died."""
    source.read()
    end()


def _end_this() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _terminate(*_: object) -> NoReturn:
    """End by an exception, so that what a job opened is closed."""
    raise SystemExit(_TERMINATED)


def _write(facts: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()

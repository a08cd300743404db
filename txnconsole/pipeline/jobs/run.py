"""How a batch job reports its progress and its result to whoever started it.

A job that runs alone logs its progress to standard error. Under the console's supervisor, which
sets ``TXNCONSOLE_RUN``, it writes one JSON object a line to standard output instead:
``{"stage": "copy", "done": 1, "total": 2}``, ``{"figures": {"rows_in": 10}}``,
``{"result": {...}}`` or ``{"error": "..."}``. The supervisor stores them with the run; this package
knows no server code. The job ends when its standard input does, which means that the supervisor has
died.

Exit status of every job: 0 done, 1 failed, 2 wrong options, 3 done with findings.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from typing import Any, BinaryIO, NoReturn

import psycopg
import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from txnconsole import logs
from txnconsole.client import TxnConsoleError
from txnconsole.pipeline.broker.topics import PartitionNotReadable
from txnconsole.pipeline.java import JavaNotFound
from txnconsole.pipeline.offload.files import DamagedFile
from txnconsole.pipeline.offload.store import UnknownStore
from txnconsole.pipeline.options import positive
from txnconsole.pipeline.session import (
    LOCAL_MASTER,
    UnknownMaster,
    build_session,
    jvm_end,
    leave_call,
    stop_session,
)

DONE, FAILED, WRONG_OPTIONS, FOUND = 0, 1, 2, 3
#: The exit status of a program that SIGTERM has ended, as shells have it.
_TERMINATED = 128 + signal.SIGTERM
_RUN = "TXNCONSOLE_RUN"
_ERROR_LENGTH = 500
_FULL = "No space left on device"
#: The exception's line in a Python traceback, which Spark repeats as text.
_CAUSE = re.compile(r"((?:[a-z_]\w*\.)+[A-Z]\w+|[A-Z]\w*Error): ")

#: Errors that are not the program's fault.
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


class SparkFailed(Exception):
    """Spark has failed; the text is :func:`brief`'s."""


class WrongOptions(Exception):
    """The job cannot do what its options ask for; the text says what to change."""


@dataclass(frozen=True)
class Run:
    """A run of a job; ``supervised``: its events go to the supervisor."""

    job: str
    supervised: bool

    @classmethod
    def of_environment(cls, job: str) -> Run:
        return cls(job, supervised=_RUN in os.environ)

    def stage(self, name: str, done: int, total: int) -> None:
        """Report a part of the work: ``done`` of ``total`` parts are finished."""
        self._tell("stage", {"stage": name, "done": done, "total": total})

    def figures(self, **figures: Any) -> None:
        """Report figures, such as ``rows_in``; later values replace earlier ones."""
        self._tell("figures", {"figures": figures})

    def result(self, result: Mapping[str, Any]) -> None:
        """Report the result of the run; the last event of a run that is done."""
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
    """Do a job's work in this process; returns the exit status."""
    logs.configure(level="info", human=sys.stderr.isatty())
    run = Run.of_environment(job)
    signal.signal(signal.SIGTERM, _terminate)
    if run.supervised:
        threading.Thread(
            # Unbuffered: Python aborts at its end if a daemon thread holds the lock of a buffer.
            target=end_at_end_of,
            args=(FileIO(0, closefd=False), _end_this),
            daemon=True,
        ).start()
    return outcome(run, work)


def outcome(run: Run, work: Callable[[Run], int]) -> int:
    """Do a job's work, and turn what it raises into an exit status and one line of text."""
    try:
        return work(run)
    except (WrongOptions, UnknownStore, UnknownMaster) as error:
        run.failed(str(error))
        return WRONG_OPTIONS
    except SparkFailed as error:
        run.failed(str(error))
        return FAILED
    except _FAILURES as error:
        run.failed(brief(error))
        return FAILED


@contextlib.contextmanager
def spark_for(job: str, *, short_job: bool = True) -> Iterator[SparkSession]:
    """A Spark for this job, on ``TXNCONSOLE_SPARK_MASTER`` or in this process's machine; its JVM
    ends with it.

    Raises:
        SparkFailed: instead of an error of Spark's, which asks the JVM for its text: later there is
            none to ask. So too when the JVM has died: what a call says of it then is that no
            connection can be made.
    """
    master = os.environ.get("TXNCONSOLE_SPARK_MASTER") or LOCAL_MASTER
    spark: SparkSession | None = None
    try:
        spark = build_session(job, master=master, short_job=short_job)
        yield spark
    except (PySparkException, Py4JJavaError) as error:
        raise SparkFailed(brief(error)) from error
    except (Py4JError, OSError, EOFError) as error:
        if (how := jvm_end()) is None:
            raise
        raise SparkFailed(
            f"Spark's JVM has ended, {how}: the machine may have run out of memory. Run it again."
        ) from error
    finally:
        if spark is not None:
            stop_session(spark)


def whole_number(option: str, *, most: int = 2**63 - 1) -> Callable[[str], int]:
    """The type of an option whose value is a whole number above 0. Of a ``ValueError``, argparse
    would show the name of the function and not the text."""

    def read(text: str) -> int:
        try:
            return positive(option, text, most=most)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def brief(error: Exception) -> str:
    """The line of an error that names the cause; the rest of a Spark error is stack traces. Of a
    full disk that it does not name, where Spark keeps its temporary files."""
    text = f"{type(error).__name__}: {error}"
    # What the JVM has thrown and PySpark does not know follows on a line of its own, after a colon.
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if _CAUSE.match(line)]
    told = (causes[-1] if causes else lines[0])[:_ERROR_LENGTH]
    if told.endswith(_FULL):
        told += f". Spark's temporary files are in {tempfile.gettempdir()} (TMPDIR)."
    return told


def end_at_end_of(source: BinaryIO | FileIO, end: Callable[[], None]) -> None:
    """Wait until the other end of a pipe closes, because the process that held it has ended; then
    call ``end``."""
    source.read()
    end()


def _end_this() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _terminate(*_: object) -> NoReturn:
    """End by an exception, so that everything that the job opened is closed."""
    leave_call()
    raise SystemExit(_TERMINATED)


def _write(facts: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PythonException

from tests.pipeline.jobs.thrown import Thrown
from txnconsole.pipeline.jobs.run import FAILED, brief

pytestmark = pytest.mark.programs

_ROOT = Path(__file__).parents[3]
_JOB = "import sys; from txnconsole.pipeline.jobs.run import run_job; sys.exit(run_job('x', {}))"

#: As the kernel does when memory runs out.
_LOSES_ITS_JVM = """
import os, signal
from pyspark import SparkContext
from txnconsole.pipeline.jobs.run import Run, outcome, spark_for

def work(run):
    with spark_for("x") as spark:
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        return spark.range(9).count()

print(outcome(Run("x", supervised=True), work))
"""

_CRASH = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
_CRASHED = f"""{_CRASH}
\tat org.apache.spark.Somewhere(Somewhere.scala:1)
Caused by: java.io.EOFException
\t... 30 more
"""
_NO_SPACE = "OSError: [Errno 28] No space left on device"
_SHUFFLED = "org.apache.spark.SparkException: Lost: java.io.IOException: No space left on device"
_FULL = f"""org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
\tat org.apache.spark.Somewhere(Somewhere.scala:1)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "store.py", line 59, in writing
{_NO_SPACE}
"""


def _ended(work: str) -> tuple[int, bytes]:
    """A job under a supervisor, which keeps the other end of its standard input open."""
    process = subprocess.Popen(
        [sys.executable, "-c", _JOB.format(work)],
        cwd=_ROOT,
        env=os.environ | {"TXNCONSOLE_RUN": "1"},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    status = process.wait(120)
    assert process.stderr is not None
    return status, process.stderr.read()


@pytest.mark.parametrize(
    "cause",
    [
        "OSError: [Errno 28] No space left on device, while /offloaded was written to.",
        "txnconsole.client.errors.TopicNotFound: There is no topic public/default/nowhere.",
    ],
)
def test_of_an_error_out_of_sparks_python_the_line_that_names_the_cause_is_told(cause: str) -> None:
    told = PythonException(
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        f'  File "store.py", line 59, in writing\n    yield opened\n{cause}\n'
    )
    assert brief(told) == cause


def test_of_what_sparks_jvm_throws_the_line_that_names_the_cause_is_told() -> None:
    assert brief(Thrown(_CRASHED)) == _CRASH


@pytest.mark.parametrize(("text", "cause"), [(_FULL, _NO_SPACE), (_SHUFFLED, _SHUFFLED)])
def test_of_a_full_disk_it_is_told_where_sparks_temporary_files_are(
    text: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert brief(Thrown(text)) == f"{cause}. Spark's temporary files are in {tmp_path} (TMPDIR)."


def test_a_supervised_job_ends_with_its_own_status_while_its_supervisor_lives() -> None:
    assert _ended("lambda run: 0") == (0, b"")
    assert _ended("lambda run: 3") == (3, b"")


def test_a_job_whose_jvm_is_killed_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOSES_ITS_JVM], cwd=_ROOT, capture_output=True, check=True
    )
    told, status = done.stdout.splitlines()
    assert b"Spark's JVM has ended, by SIGKILL" in told
    assert int(status) == FAILED

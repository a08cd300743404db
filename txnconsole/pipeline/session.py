"""The one way to start Spark, with all necessary settings (reference/spark.md, sections 0 and a).

A session lives in a JVM, a child of this process. ``kill -9`` of this process ends the JVM and its
Python workers within a second, because each of them waits on a pipe from its parent.
"""

from __future__ import annotations

import contextlib
import locale
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from txnconsole.pipeline import register
from txnconsole.pipeline.java import find_java

#: Two task slots, and up to four attempts at each task; with ``local[2]`` Spark would not retry.
LOCAL_MASTER = "local[2,4]"
_LOGGING = Path(__file__).with_name("log4j2.properties")
#: Only the JVM's first compiler (C1), which halves the CPU time of a start; long batch jobs are
#: better off with both. With C1 alone a JVM would reserve 48 MiB for compiled code. Two audits fill
#: that, and a JVM without room for code ends; therefore the larger code cache.
_SHORT_JOB_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
#: Turns off Arrow's checks of every access, which Spark does not need: it asks for no value that is
#: null or out of range. Reading the batches from Python gets nearly twice as fast.
_UNCHECKED_ARROW = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
_SECONDS_TO_EXIT = 5
_SECONDS_TO_BE_DEAD = 1
_CLUSTER_CORES = "2"
_HOSTS = r"[^\s/,]+:\d+"
#: What Spark takes for a master (SparkContext.createTaskScheduler); it tells of another only when
#: its JVM has started.
_MASTER = re.compile(
    r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[.+\]|yarn|k8s://\S+"
    rf"|spark://{_HOSTS}(,{_HOSTS})*"
)


class UnknownMaster(ValueError):
    """A master's address has a form that Spark does not know."""


def build_session(
    name: str,
    *,
    master: str = LOCAL_MASTER,
    short_job: bool = True,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or return the session that runs in this process, with the source registered.

    Args:
        name: the application's name.
        master: a Spark master URL.
        short_job: trade peak speed for a start in half the time.
        config: further Spark settings, which win over those here.

    Raises:
        UnknownMaster: the master is none.
        JavaNotFound: no Java that Spark runs on.
    """
    if not _MASTER.fullmatch(master):
        raise UnknownMaster(
            f"A Spark master (TXNCONSOLE_SPARK_MASTER) is spark://host:7077, local[2] or another of"
            f" Spark's, not {master[:80]!r}."
        )
    logging.getLogger("py4j").setLevel(logging.WARNING)  # At INFO it logs every connection.
    _prepare_environment(master)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in (_settings(master, short_job) | dict(config or {})).items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def stop_session(spark: SparkSession) -> None:
    """Stop Spark and wait until its JVM has gone.

    ``spark.stop()`` alone leaves the JVM running until this process ends. A JVM that has gone
    already, or goes meanwhile, because a signal went to the whole process group, is no failure.
    """
    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way to end its JVM
    try:
        with contextlib.suppress(Py4JError, OSError):
            spark.stop()
    finally:
        if gateway is not None:
            gateway.shutdown()
            _end(gateway.proc)
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def jvm_end() -> str | None:
    """How Spark's JVM has ended, in words; None while it runs, or when it is not this process's.

    For one whose call has failed: a JVM that was killed closes its connections a moment before it
    can be told that it has ended.
    """
    gateway = SparkContext._gateway  # noqa: SLF001 - as above
    if gateway is None or gateway.proc is None:
        return None
    try:
        status = gateway.proc.wait(_SECONDS_TO_BE_DEAD)
    except subprocess.TimeoutExpired:
        return None
    return f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"


def leave_call() -> None:
    """Give up this thread's call to the JVM, if it is in one, before a signal's handler raises.

    The answer is still to come, and would be taken for that of the next call on this connection;
    the next call makes a connection of its own.
    """
    gateway = SparkContext._gateway  # noqa: SLF001 - as above
    client = None if gateway is None else gateway._gateway_client  # noqa: SLF001
    connection = None if client is None else client.get_thread_connection()
    if connection is not None:
        connection.close()


def _end(jvm: subprocess.Popen[bytes] | None) -> None:
    if jvm is None:
        return
    if jvm.stdin is not None:
        jvm.stdin.close()  # The JVM takes the end of its standard input as the order to exit.
    try:
        jvm.wait(_SECONDS_TO_EXIT)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _prepare_environment(master: str) -> None:
    """Set what the launcher and the Python workers read; both inherit this process's environment.

    Without ``PYSPARK_PYTHON`` the workers would be whatever ``python3`` is first on the path;
    without ``PYTHONPATH`` they would find this package only from the right directory.
    """
    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    root = str(Path(__file__).parents[2])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
    if locale.getencoding().upper() != "UTF-8":
        os.environ["LC_ALL"] = "C.UTF-8"  # Else Java opens no file whose name is beyond ASCII.
    if master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


def _settings(master: str, short_job: bool) -> dict[str, str]:
    java_options = f"-Duser.timezone=UTC -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    # Java knows no TMPDIR. Spark keeps there what does not fit into memory.
    java_options += f' "-Djava.io.tmpdir={tempfile.gettempdir()}"'
    java_options += f" {_UNCHECKED_ARROW}"
    if short_job:
        java_options += f" {_SHORT_JOB_JVM}"
    settings = {
        "spark.driver.extraJavaOptions": java_options,
        "spark.executor.extraJavaOptions": _UNCHECKED_ARROW,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        # No text that is given to Spark as SQL may read its environment: ${env:…}.
        "spark.sql.variable.substitute": "false",
        "spark.sql.shuffle.partitions": "2",
        # Spark measures tables by their stored bytes. A row may be one byte there, and a hundred
        # once it is broadcast: with the default (10 MiB) the four tables of an audit of 10^7
        # messages were more than a driver's memory.
        "spark.sql.autoBroadcastJoinThreshold": "512k",
        "spark.sql.warehouse.dir": (Path(tempfile.gettempdir()) / "txnconsole-warehouse").as_uri(),
        # A query that waits for an unreachable server must not keep the program from ending.
        "spark.sql.streaming.stopTimeout": "3s",
        # Only the last batches are ever read again; the default is to keep 100 of them.
        "spark.sql.streaming.minBatchesToRetain": "10",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    else:
        # Otherwise a standalone cluster gives all its cores to the first job, and others wait.
        settings["spark.cores.max"] = _CLUSTER_CORES
    return settings

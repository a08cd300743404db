from __future__ import annotations

import signal
import threading
from typing import cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from structlog.testing import capture_logs

from tests.pipeline.jobs.thrown import Thrown
from txnconsole.client import PermissionDenied, TopicNotFound, TxnConsoleError
from txnconsole.pipeline.java import JavaNotFound
from txnconsole.pipeline.jobs import run, streaming
from txnconsole.pipeline.jobs.streaming import StreamingJob, keep_running, run_command

_SPARK = cast("SparkSession", None)
_FAILED = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to a failure:
Traceback (most recent call last):
  File "wire.py", line 53, in read
    raise _error(status, headers, body)
txnconsole.client.errors.{code}: what the server says
\tat org.apache.spark.Somewhere(Somewhere.scala:1)
 SQLSTATE: XXKST"""


class Query:
    """A query that ends at once, as told: well, or with an error."""

    id = "q-1"
    isActive = False  # noqa: N815 - Spark's name

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def awaitTermination(self, timeout: int | None = None) -> None:  # noqa: N802
        del timeout
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Nothing runs."""


class Script:
    """A job whose starts fail or run as told, one after the other."""

    def __init__(self, *starts: Exception | Query) -> None:
        self._starts = list(starts)
        self.tidied = 0

    def start(self, spark: SparkSession) -> StreamingQuery:
        del spark
        start = self._starts.pop(0)
        if isinstance(start, Exception):
            raise start
        return cast("StreamingQuery", start)

    def tidy(self) -> None:
        self.tidied += 1

    def run(self, stop: threading.Event | None = None) -> int:
        job = StreamingJob("scripted", self.start, self.tidy)
        return keep_running(job, _SPARK, stop or threading.Event())


@pytest.fixture(autouse=True)
def delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_FIRST_DELAY", 0.01)


def _query_failure(code: str) -> Query:
    return Query(StreamingQueryException(_FAILED.format(code=code)))


def test_a_query_that_ends_by_itself_ends_the_command() -> None:
    script = Script(Query(None))
    assert script.run() == 0
    assert script.tidied == 1


@pytest.mark.parametrize(
    "failure",
    [
        TopicNotFound("no flights yet"),
        Thrown("org.apache.spark.SparkException: Python worker failed to connect back.\n\tat x"),
        _query_failure("PartitionUnavailable"),
    ],
    ids=["at the start", "of Spark's at the start", "while running"],
)
def test_a_failure_that_may_pass_is_told_in_one_line_and_tried_again(
    failure: Exception | Query,
) -> None:
    with capture_logs() as lines:
        assert Script(failure, failure, Query(None)).run() == 0
    failures = [line for line in lines if line["event"] == "query_failed"]
    assert len(failures) == 2
    assert all("\n" not in str(line["error"]) for line in failures)


def test_who_fails_again_and_again_waits_longer_until_it_has_run_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [TxnConsoleError("away")] * 3
    for recovered, waited in ((60.0, [0.01, 0.02, 0.03]), (0.0, [0.01] * 3)):
        monkeypatch.setattr(streaming, "_RECOVERED", recovered)
        monkeypatch.setattr(streaming, "_LONGEST_DELAY", 0.03)
        with capture_logs() as lines:
            assert Script(*failures, Query(None)).run() == 0
        assert [line["retry_in_s"] for line in lines if "retry_in_s" in line] == waited


def test_the_line_names_the_cause_and_not_sparks_last_words() -> None:
    with capture_logs() as lines:
        Script(_query_failure("PartitionUnavailable"), Query(None)).run()
    line = next(line for line in lines if line["event"] == "query_failed")
    assert line["error"] == ("txnconsole.client.errors.PartitionUnavailable: what the server says")


@pytest.mark.parametrize(
    "failure",
    [PermissionDenied("this topic"), _query_failure("ProducerFenced")],
    ids=["at the start", "while running"],
)
def test_a_refusal_for_good_ends_the_command(failure: Exception | Query) -> None:
    assert Script(failure).run() == 1


@pytest.mark.parametrize(
    "error", [JavaNotFound("Spark needs Java"), Thrown("org.apache.spark.X: no master")]
)
def test_a_spark_that_does_not_start_is_told_in_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs() as lines:
        assert _unstarted(error, monkeypatch) == 1
    assert [line["event"] for line in lines] == ["spark_lost"]
    assert "\n" not in lines[0]["error"]


def test_a_signal_that_ends_the_jvm_while_it_starts_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "_stop_on_signals", threading.Event.set)
    with capture_logs() as lines:
        assert _unstarted(Py4JNetworkError("the JVM has gone"), monkeypatch) == 0
    assert not lines


def _unstarted(error: Exception, monkeypatch: pytest.MonkeyPatch) -> int:
    """The command, when starting Spark raises an error."""

    def fail(*_: object, **__: object) -> SparkSession:
        raise error

    monkeypatch.setattr(run, "build_session", fail)
    return _command(Script())


@pytest.mark.parametrize("starts", [False, True])
def test_a_jvm_that_was_killed_is_named_and_not_the_connection_that_nobody_took(
    starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    monkeypatch.setattr(run, "build_session", lambda *_, **__: _SPARK)
    monkeypatch.setattr(run, "stop_session", lambda _spark: None)
    monkeypatch.setattr(run, "jvm_end", lambda: "by SIGKILL")
    with capture_logs() as lines:
        status = _unstarted(refused, monkeypatch) if starts else _command(Script(refused))
    assert status == 1
    [line] = lines
    assert line["event"] == "spark_lost"
    assert line["error"].startswith("Spark's JVM has ended, by SIGKILL")


def _command(script: Script) -> int:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return run_command(StreamingJob("scripted", script.start, script.tidy))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_a_signal_ends_the_wait_for_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_FIRST_DELAY", 600.0)
    stop = threading.Event()

    class Stopping(Script):
        def start(self, spark: SparkSession) -> StreamingQuery:
            threading.Timer(0.05, stop.set).start()
            raise TxnConsoleError("away")

    assert Stopping().run(stop) == 0

"""How a job tells that Spark has failed, and of an option that argparse refuses. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from pyspark.errors import PySparkException
from structlog.testing import capture_logs

from tests.pipeline.jobs.thrown import Thrown
from txnconsole.pipeline.jobs import demo, metrics, replay, run
from txnconsole.pipeline.jobs.run import FAILED, Run, outcome, spark_for

_TOLD = "client.errors.TopicNotFound: There is no topic public/default/nowhere."


class Captured(PySparkException):
    """An error of the JVM's, which is asked for the text."""

    jvm_runs = True

    def __str__(self) -> str:
        assert self.jvm_runs
        return f"Traceback:\n  File ...\n{_TOLD}"


class Uncaptured(Thrown):
    """One that PySpark has no error of its own for."""

    jvm_runs = True

    def __str__(self) -> str:
        assert self.jvm_runs
        return super().__str__()


@pytest.mark.parametrize("error", [Captured("x"), Uncaptured(_TOLD)])
def test_why_spark_failed_is_told_although_its_jvm_has_ended(
    error: Captured | Uncaptured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "build_session", lambda *_, **__: None)
    monkeypatch.setattr(run, "stop_session", lambda _: setattr(error, "jvm_runs", False))

    def work(_: Run) -> int:
        with spark_for("x"):
            raise error

    with capture_logs() as lines:
        assert outcome(Run("x", supervised=False), work) == FAILED
    assert lines[-1]["error"] == _TOLD


@pytest.mark.parametrize(
    ("parse", "arguments", "complaint"),
    [
        (demo._parse, ["--interval", "-1"], "--interval is a whole number above 0, not '-1'"),
        (metrics._parse, ["--hours", "0"], "--hours is a whole number above 0, not '0'"),
        (metrics._parse, ["--hours", "87600000"], "--hours is 9999 at most, not '87600000'"),
        (
            replay._parse,
            ["--name", "x", "--source", "a", "--target", "b", "--batch-messages", "many"],
            "--batch-messages is a whole number above 0, not 'many'",
        ),
    ],
)
def test_a_number_that_is_none_is_refused_with_what_it_must_be(
    parse: Callable[[Sequence[str]], object],
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert complaint in capsys.readouterr().err

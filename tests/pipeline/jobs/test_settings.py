"""What a job says of settings with which it cannot work. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from txnconsole.pipeline import session
from txnconsole.pipeline.audit.log_copy import TABLES, WHOLE, mark_whole
from txnconsole.pipeline.broker.topics import PartitionNotReadable
from txnconsole.pipeline.java import JavaNotFound
from txnconsole.pipeline.jobs import audit, metrics, offload
from txnconsole.pipeline.jobs.run import FAILED, WRONG_OPTIONS, Run, outcome, spark_for
from txnconsole.pipeline.offload.files import DamagedFile
from txnconsole.pipeline.offload.store import Store

_JOBS = {
    "audit": lambda run: audit._work(audit._parse([]), run),
    "metrics": lambda run: metrics._work(metrics._parse([]), run),
    "offload": lambda run: offload._work(offload._parse([]), run),
}


def _told(work: Callable[[Run], int]) -> tuple[int, str]:
    with capture_logs() as lines:
        status = outcome(Run("x", supervised=False), work)
    return status, lines[-1]["error"]


def test_an_audit_whose_report_cannot_be_written_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(report: Path) -> tuple[int, str]:
        options = audit._parse(["--report", str(report)])
        return _told(lambda run: audit._work(options, run))

    nowhere, report = tmp_path / "nowhere", tmp_path / "report.json"
    told = f"--report: there is no directory {nowhere}."
    assert refusal(nowhere / "report.json") == (WRONG_OPTIONS, told)
    told = f"--report: {tmp_path} is a directory; name a file in it."
    assert refusal(tmp_path) == (WRONG_OPTIONS, told)
    # The tests' user may be root, who may write everywhere.
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    told = f"--report: {report} may not be written by this user."
    assert refusal(report) == (WRONG_OPTIONS, told)


def test_an_audit_whose_copy_cannot_be_kept_is_not_begun(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    options = audit._parse(["--copy", str(file)])
    told = f"--copy: {file} cannot be written: File exists."
    assert _told(lambda run: audit._work(options, run)) == (WRONG_OPTIONS, told)


@pytest.mark.parametrize("there", [{}, {WHOLE: "", **TABLES}, dict.fromkeys(list(TABLES)[1:], "")])
def test_an_audit_of_a_copy_that_is_not_there_as_a_whole_is_not_begun(
    tmp_path: Path, there: dict[str, str]
) -> None:
    """An earlier version's copy lacks tables, of which Spark told the first; or columns, so that
    nothing would agree with them."""
    if WHOLE not in there:
        mark_whole(tmp_path)
    for name in there:
        (tmp_path / name).touch()
    options = audit._parse(["--of-copy", str(tmp_path)])
    told = f"--of-copy: {tmp_path} has no whole copy of the logs: take it again (--copy)."
    assert _told(lambda run: audit._work(options, run)) == (WRONG_OPTIONS, told)


@pytest.mark.parametrize("job", _JOBS)
def test_databases_that_are_not_set_or_no_connection_strings_are_told(
    monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("BROKER_DATABASE_URLS", raising=False)
    status, error = _told(_JOBS[job])
    assert status == WRONG_OPTIONS
    assert "BROKER_DATABASE_URLS: the databases are read" in error
    monkeypatch.setenv("BROKER_DATABASE_URLS", "dbname=x")
    if job != "offload":  # which needs no coordinators
        assert _told(_JOBS[job]) == (status, error)
    monkeypatch.setenv("DATABASE_URL", "dbname=x")
    monkeypatch.setenv("BROKER_DATABASE_URLS", "nonsense")
    status, error = _told(_JOBS[job])
    assert status == WRONG_OPTIONS
    assert "The connection string of broker-1 is none of PostgreSQL's" in error


def test_a_place_for_files_that_names_no_store_is_a_wrong_option() -> None:
    status, error = _told(lambda _run: Store("foo://x").listed() and 0)
    assert status == WRONG_OPTIONS
    assert "begins with foo://" in error


@pytest.mark.parametrize("master", ["cluster:7077", "spark://cluster", "local[two]", "http://a:1"])
def test_what_is_no_master_of_sparks_is_told_before_a_jvm_starts(
    monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    monkeypatch.setenv("TXNCONSOLE_SPARK_MASTER", master)
    monkeypatch.setattr(session, "find_java", lambda: pytest.fail("a JVM is about to start"))

    def work(_run: Run) -> int:
        with spark_for("x"):
            return 0

    status, error = _told(work)
    assert status == WRONG_OPTIONS
    assert error.startswith("A Spark master (TXNCONSOLE_SPARK_MASTER) is spark://host:7077")
    assert repr(master) in error


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[*]", "local[2, 4]", "local-cluster[2,1,1024]", "yarn"),
        *("k8s://https://a:443", "spark://a:7077", "spark://a:7077,b:7077", "spark://[::1]:7077"),
    ],
)
def test_every_master_that_spark_knows_is_taken(
    monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    def missing() -> Path:
        raise JavaNotFound("no Java")

    monkeypatch.setattr(session, "find_java", missing)
    with pytest.raises(JavaNotFound):
        session.build_session("x", master=master)


@pytest.mark.parametrize("failure", [JavaNotFound, PartitionNotReadable, DamagedFile])
def test_what_a_job_cannot_go_on_with_is_told_in_one_line(failure: type[Exception]) -> None:
    def fails(_run: Run) -> int:
        raise failure("why")

    assert _told(fails) == (FAILED, f"{failure.__name__}: why")

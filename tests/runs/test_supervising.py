from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import F
from django.db.models.functions import Now

from tests.runs.conftest import started
from tests.support.eventually import eventually
from txnconsole.access import tokens
from txnconsole.access.models import Token
from txnconsole.jobs.work import JobState
from txnconsole.runs import launching, lifecycle, run_log, supervising
from txnconsole.runs.models import PipelineRun
from txnconsole.runs.supervising import Supervisor

pytestmark = pytest.mark.django_db


def supervised(do: str, **parameters: str) -> PipelineRun:
    """A run that was claimed and supervised to its end."""
    started(do, **parameters)
    claimed = launching.claim()
    assert claimed is not None
    Supervisor(claimed.pk, claimed.lease).run()
    return lifecycle.find(claimed.pk)


def test_a_run_keeps_what_its_job_has_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "not for jobs")
    monkeypatch.setenv("DATABASE_URL", "not for this job")
    run = supervised("finish", topic="public/default/orders")
    assert (run.state, run.exit_code, run.error, run.found) == (JobState.DONE, 0, "", False)
    assert (run.stage, run.stage_done, run.stage_total) == ("reading", 1, 3)
    assert run.figures == {"rows_in": 10, "rows_out": 4}
    assert run.result == {"token": True, "secrets": []}
    assert run.log_tail == "a line of the log\n"
    assert run.ended_at is not None
    assert run.place.endswith(f":{os.getpid()}")


@pytest.mark.parametrize(
    ("kind", "coordinators", "brokers"),
    [
        ("audit", "reader", "reader-1,reader-2"),
        ("metrics", "owner", "reader-1,reader-2"),
        ("offload", "reader", "owner-1,owner-2"),
        ("replay", None, None),
    ],
)
def test_a_job_has_the_servers_rights_only_where_it_writes(
    monkeypatch: pytest.MonkeyPatch, kind: str, coordinators: str | None, brokers: str | None
) -> None:
    for whose in ("owner", "reader"):
        prefix = "READER_" if whose == "reader" else ""
        monkeypatch.setattr(settings, f"{prefix}DATABASE_URL", whose)
        urls = [f"{whose}-1", f"{whose}-2"]
        monkeypatch.setattr(settings, f"{prefix}BROKER_DATABASE_URLS", urls)
        monkeypatch.setenv(f"TXNCONSOLE_{prefix}DATABASE_URL", "not for jobs")
    run = PipelineRun(pk=1, kind=kind)
    told = supervising._environment(run, "", "")
    assert told.get("DATABASE_URL") == coordinators
    assert told.get("BROKER_DATABASE_URLS") == brokers
    assert "TXNCONSOLE_READER_DATABASE_URL" not in told


def test_events_that_are_none_are_left_alone_and_those_after_them_are_kept() -> None:
    run = supervised("babble")
    assert (run.state, run.error, run.result) == (JobState.DONE, "", None)
    assert run.figures == {"rows_in": 10, "rows_out": 5, "nul": "ab?"}
    assert (run.stage, run.stage_done, run.stage_total) == ("reading", 1, 3)


def test_the_token_of_a_run_is_for_its_topics_and_ends_with_it() -> None:
    supervised("finish", topic="public/default/orders")
    token = Token.objects.get()
    assert token.topics == ["public/default/orders"]
    assert token.revoked_at is not None
    assert "admin" not in token.roles


def test_the_token_of_a_run_outlives_its_supervisor_by_minutes_and_is_renewed_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervising, "_BEAT_SECONDS", 0.1)
    run = started("hang", topic="public/default/orders")
    claimed = launching.claim()
    assert claimed is not None
    supervisor = Supervisor(claimed.pk, claimed.lease)
    beat, left = supervisor._beat, []

    def watched() -> bool:
        token = Token.objects.annotate(left=F("expires_at") - Now())
        left.append(token.values_list("left", flat=True).get())
        if len(left) == 1:  # As if the run were long under way.
            Token.objects.update(expires_at=Now() + timedelta(seconds=5))
        if len(left) == 3:
            lifecycle.cancel(run.pk, "bob")
        return beat()

    monkeypatch.setattr(supervisor, "_beat", watched)
    supervisor.run()
    assert max(left) <= supervising._TOKEN_LIFE < timedelta(minutes=10)
    assert left[1] > timedelta(minutes=1)
    assert Token.objects.get().revoked_at is not None


def test_a_token_is_not_renewed_once_it_was_revoked() -> None:
    run = started("finish", topic="public/default/orders")
    with supervising._token(run) as held:
        token = Token.objects.get()
        tokens.revoke(token)
        before = Token.objects.get().expires_at
        held.renew()
        assert Token.objects.get().expires_at == before


def test_a_job_that_found_something_is_done_and_says_so() -> None:
    run = supervised("find")
    assert (run.state, run.found, run.result) == (JobState.DONE, True, {"holds": False})


def test_a_job_that_fails_tells_why_and_how_far_it_was() -> None:
    run = supervised("fail")
    assert (run.state, run.error, run.exit_code) == (JobState.FAILED, "the disk is full", 1)
    assert run.figures == {"rows_in": 10, "rows_out": 4}
    assert run.stage == "reading"


def test_a_job_that_is_killed_says_by_what() -> None:
    run = supervised("die")
    assert (run.state, run.error) == (JobState.FAILED, "The job was ended by SIGKILL.")


def test_what_a_killed_job_leaves_among_temporary_files_goes_with_its_run() -> None:
    scratch = Path(supervised("die").figures["scratch"])
    assert scratch.parent.name.startswith("txnconsole-run-")
    assert not scratch.parent.exists()


def test_a_failed_run_is_simply_run_again() -> None:
    failed = supervised("fail")
    again = lifecycle.repeat(
        failed.pk, actor=launching._SCHEDULER, origin=failed.origin, reason="the disk is larger"
    )
    assert (again.state, again.repeats, again.parameters) == ("queued", failed.pk, {"do": "fail"})


def test_cancelling_ends_the_job_and_all_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "_BEAT_SECONDS", 0.1)
    run = started("hang")
    claimed = launching.claim()
    assert claimed is not None
    supervisor = Supervisor(claimed.pk, claimed.lease)
    beat = supervisor._beat

    def cancel_when_it_runs() -> bool:
        if "child" in supervisor._told.figures:
            lifecycle.cancel(run.pk, "bob")
        return beat()

    monkeypatch.setattr(supervisor, "_beat", cancel_when_it_runs)
    supervisor.run()
    ended = lifecycle.find(run.pk)
    assert (ended.state, ended.cancel_requested_by, ended.error) == ("cancelled", "bob", "")
    assert ended.figures["rows_in"] == 11
    assert eventually(lambda: not _lives(ended.figures["child"]))


def test_a_supervisor_that_is_stopped_ends_the_job_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervising, "_BEAT_SECONDS", 0.1)
    run = started("hang")
    claimed = launching.claim()
    assert claimed is not None
    supervisor = Supervisor(claimed.pk, claimed.lease)
    beat = supervisor._beat

    def stop_when_it_runs() -> bool:
        if "child" in supervisor._told.figures:
            supervisor.stop()
        return beat()

    monkeypatch.setattr(supervisor, "_beat", stop_when_it_runs)
    supervisor.run()
    ended = lifecycle.find(run.pk)
    assert ended.state == "failed"
    assert ended.error == "It was stopped together with the product. Run it again."
    assert eventually(lambda: not _lives(ended.figures["child"]))


def test_a_supervisor_whose_run_was_given_up_ends_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "_BEAT_SECONDS", 0.1)
    run = started("hang")
    claimed = launching.claim()
    assert claimed is not None
    PipelineRun.objects.filter(pk=run.pk).update(state=JobState.FAILED, error="silent")
    supervisor = Supervisor(claimed.pk, claimed.lease)
    supervisor.run()  # Not its own any more: nothing is started.
    assert lifecycle.find(run.pk).place == ""

    PipelineRun.objects.filter(pk=run.pk).update(state=JobState.RUNNING)
    beat, beats = supervisor._beat, []

    def given_up() -> bool:
        beats.append(time.monotonic())
        PipelineRun.objects.filter(pk=run.pk).update(state=JobState.FAILED, error="silent")
        return beat()

    monkeypatch.setattr(supervisor, "_beat", given_up)
    supervisor.run()
    assert len(beats) == 1
    assert lifecycle.find(run.pk).error == "silent"


def test_a_supervisor_that_took_its_time_to_start_is_not_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = started("finish")
    claimed = launching.claim()
    assert claimed is not None
    PipelineRun.objects.filter(pk=run.pk).update(heartbeat_at=Now() - 2 * launching.SILENCE)
    lost = []
    monkeypatch.setattr(Supervisor, "_follow", lambda *_: lost.append(launching.fail_lost()))
    Supervisor(claimed.pk, claimed.lease).run()
    assert lost == [0]


@pytest.mark.django_db(transaction=True)
def test_a_supervisor_outlives_a_restart_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "_BEAT_SECONDS", 0.1)
    run = started("hang")
    claimed = launching.claim()
    assert claimed is not None
    supervisor = Supervisor(claimed.pk, claimed.lease)
    beat, beats = supervisor._beat, []

    def cut_off() -> bool:
        beats.append(time.monotonic())
        if len(beats) == 1:
            _end_connection()
        assert len(beats) < 30, "it never reaches the database again"
        if len(beats) == 3:
            lifecycle.cancel(run.pk, "bob")
        return beat()

    monkeypatch.setattr(supervisor, "_beat", cut_off)
    supervisor.run()
    assert lifecycle.find(run.pk).state == JobState.CANCELLED


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_job_is_told_although_the_database_is_away_just_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervising, "_BEAT_SECONDS", 0.1)
    tail = run_log.tail

    def cut_off(run_id: int) -> str:
        _end_connection()
        return tail(run_id)

    monkeypatch.setattr(run_log, "tail", cut_off)
    run = supervised("finish")
    assert (run.state, run.exit_code) == (JobState.DONE, 0)


def test_a_job_ends_itself_when_its_supervisor_dies() -> None:
    """What `txnconsole.pipeline.jobs.run` does with the end of its standard input."""
    from txnconsole.pipeline.jobs import run as job

    ended = threading.Event()
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source:
        thread = threading.Thread(target=job.end_at_end_of, args=(source, ended.set))
        thread.start()
        assert not ended.is_set()
        os.close(writer)
        thread.join(60)
    assert ended.is_set()


def _end_connection() -> None:
    """What a restart of the server does to this thread's connection."""
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().split()[2] != "Z"

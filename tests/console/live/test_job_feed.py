"""The channel of a background job."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connections

from engine.model.errors import CoordinatorUnavailable, InvalidRequest
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission, Role
from txnconsole.audit.recording import Actor
from txnconsole.console.live.channels import channel_named
from txnconsole.console.live.hub import look
from txnconsole.console.live.job_feed import JobFeed
from txnconsole.jobs import lifecycle
from txnconsole.jobs.errors import JobNotFound
from txnconsole.jobs.models import Job

VIEWER = Principal("ann", frozenset({Role.VIEWER}))


@pytest.fixture
def kept_connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A feed's connections are given back; the test's own, in one transaction, must stay."""
    closed: list[str] = []
    monkeypatch.setattr(type(connections), "close_all", lambda _: closed.append("closed"))
    return closed


def test_a_change_is_told_once_and_no_connection_is_kept(
    db: None, kept_connections: list[str]
) -> None:
    job = lifecycle.start("bulk_abort", Actor("ann"), "x", parameters={}, objects=["a", "b"])
    feed = JobFeed(job.pk)
    first, second = look(feed), look(feed)
    assert first.change == {"changed": True}
    assert (second.change, second.position) == (None, first.position)
    lifecycle.cancel(job.pk, "ann")
    assert look(feed).change == {"changed": True}
    assert len(kept_connections) == 3


def test_a_job_that_is_not_there_fails_and_keeps_no_connection(
    db: None, kept_connections: list[str]
) -> None:
    with pytest.raises(JobNotFound):
        look(JobFeed(99))
    assert kept_connections == ["closed"]


def test_the_channel_of_a_job_is_for_those_who_may_read_jobs() -> None:
    channel = channel_named("job:7", VIEWER)
    assert (channel.name, channel.permission) == ("job:7", Permission.JOB_READ)
    for text in ("job:", "job:x", "job:-1", f"job:{'9' * 30}"):
        with pytest.raises(InvalidRequest):
            channel_named(text, VIEWER)


def test_an_absent_database_is_said_to_be_one(
    kept_connections: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_job_id: int) -> Job:
        raise OperationalError

    monkeypatch.setattr(lifecycle, "find", away)
    with pytest.raises(CoordinatorUnavailable):
        look(JobFeed(1))
    assert kept_connections == ["closed"]

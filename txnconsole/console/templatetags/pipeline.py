"""How a pipeline run is written on a page."""

from __future__ import annotations

from datetime import timedelta

from django import template
from django.utils.safestring import SafeString

from txnconsole.console.templatetags.console import as_sent, state
from txnconsole.jobs.work import JobState
from txnconsole.quantities import count, duration
from txnconsole.runs.models import PipelineRun

register = template.Library()

#: The transaction state whose icon and colour a run's state has, and its own word.
_BADGES = {
    JobState.QUEUED: ("NONE", "Waiting"),
    JobState.RUNNING: ("OPEN", "Running"),
    JobState.DONE: ("COMMITTED", "Done"),
    JobState.FAILED: ("ABORTED", "Failed"),
    JobState.CANCELLED: ("ABORTING", "Cancelled"),
}


@register.simple_tag
def run_state(run: PipelineRun) -> SafeString:
    """A run's state as a badge; a run that is done and has findings gets a warning."""
    if run.state == JobState.DONE and run.found:
        return state("ABORTED", "Findings")
    if run.state == JobState.RUNNING and run.cancel_requested_at is not None:
        return state("ABORTING", "Cancelling")
    return state(*_BADGES[JobState(run.state)])


@register.filter
def took(run: PipelineRun) -> str:
    """How long a run took, or has been running according to its last heartbeat."""
    until = run.ended_at or run.heartbeat_at
    if run.started_at is None or until is None:
        return duration(None)
    return duration((until - run.started_at).total_seconds() * 1000)


@register.filter
def figure(run: PipelineRun, name: str) -> int | None:
    """A figure that the run has reported, if it has."""
    value = run.figures.get(name)
    return value if isinstance(value, int) else None


@register.filter
def written_figure(value: object) -> str:
    """A figure of a job's own: a number, or what else it tells."""
    return count(value) if isinstance(value, int) else as_sent(value)


@register.filter
def interval(every: timedelta) -> str:
    """How often something happens."""
    return duration(every.total_seconds() * 1000)

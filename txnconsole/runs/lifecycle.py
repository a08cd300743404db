"""A run's beginning, and the wish for its end; :mod:`txnconsole.runs.supervising` does the rest."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from txnconsole.audit.recording import Actor
from txnconsole.jobs.work import UNFINISHED, JobState
from txnconsole.runs.errors import InvalidRunState, RunNotFound
from txnconsole.runs.kinds import kind_named
from txnconsole.runs.models import PipelineRun, RunOrigin


def start(
    kind: str,
    parameters: Mapping[str, str],
    *,
    actor: Actor,
    origin: RunOrigin,
    reason: str = "",
    repeats: int | None = None,
) -> PipelineRun:
    """Make a run; a worker starts it within seconds, or when those before it have ended.

    Raises:
        InvalidRequest: no such job, or it has no such parameters.
    """
    checked = kind_named(kind).check(parameters)
    run = PipelineRun.objects.create(
        kind=kind,
        parameters=checked,
        origin=origin,
        who=actor.name,
        token_id=actor.token_id,
        request_id=actor.request_id,
        reason=reason,
        repeats=repeats,
    )
    return find(run.pk)


def repeat(run_id: int, *, actor: Actor, origin: RunOrigin, reason: str = "") -> PipelineRun:
    """Make a run with the parameters of another.

    Raises:
        RunNotFound: there is none.
        InvalidRunState: it has not ended.
    """
    run = find(run_id)
    if run.state in UNFINISHED:
        raise InvalidRunState(
            f"Run {run_id} is {run.state}; it can be repeated when it has ended.",
            current_state=str(run.state),
        )
    return start(
        run.kind, run.parameters, actor=actor, origin=origin, reason=reason, repeats=run.pk
    )


def find(run_id: int, *, lock: bool = False) -> PipelineRun:
    """A run as it stands; with ``lock`` it stays so until the SQL transaction ends.

    Raises:
        RunNotFound: there is none.
    """
    runs = PipelineRun.objects.select_for_update() if lock else PipelineRun.objects
    run = runs.filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"There is no pipeline run {run_id}.")
    return run


def cancel(run_id: int, who: str) -> PipelineRun:
    """Have a run end: at once when it is queued, else within seconds. Asked again, it changes
    nothing.

    Raises:
        RunNotFound: there is none.
        InvalidRunState: it is done or failed.
    """
    with transaction.atomic():
        run = find(run_id, lock=True)
        if not run.cancel(who, at_once=run.state == JobState.QUEUED):
            raise InvalidRunState(
                f"Run {run_id} is {run.state}; there is nothing left to cancel.",
                current_state=str(run.state),
            )
    return find(run_id)

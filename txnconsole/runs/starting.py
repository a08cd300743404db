"""Asking for a run, and for its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from txnconsole.audit.chain import Actor
from txnconsole.runs.errors import InvalidRunState, RunNotFound
from txnconsole.runs.kinds import kind_named
from txnconsole.runs.models import UNFINISHED, PipelineRun, RunOrigin, RunState


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


def find(run_id: int) -> PipelineRun:
    """A run as it stands.

    Raises:
        RunNotFound: there is none.
    """
    run = PipelineRun.objects.filter(pk=run_id).first()
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
        run = PipelineRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None:
            raise RunNotFound(f"There is no pipeline run {run_id}.")
        if run.state not in UNFINISHED:
            if run.state == RunState.CANCELLED:
                return run
            raise InvalidRunState(
                f"Run {run_id} is {run.state}; there is nothing left to cancel.",
                current_state=str(run.state),
            )
        changes: dict[str, Any] = {}
        if run.cancel_requested_at is None:
            changes = {"cancel_requested_at": Now(), "cancel_requested_by": who}
        if run.state == RunState.QUEUED:
            changes |= {"state": RunState.CANCELLED, "ended_at": Now()}
        if changes:
            PipelineRun.objects.filter(pk=run_id).update(**changes)
    return find(run_id)

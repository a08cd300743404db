"""Pipeline runs: Spark jobs, their parameters and their results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from engine.model.moment import time_text
from txnconsole.api.structs.fields import (
    Answer,
    Body,
    Name,
    PageQuery,
    Text,
    Time,
    optional_time,
)
from txnconsole.runs.models import PipelineRun

_State = Literal["queued", "running", "done", "failed", "cancelled"]
_Parameters = Annotated[
    dict[Name, Annotated[str, msgspec.Meta(max_length=2000, pattern=r"^[^\x00]*$")]],
    msgspec.Meta(
        max_length=32,
        description="The job's options by name.",
        examples=[{"topics": "public/default/*"}],
    ),
]


class RunParameter(Answer):
    """An option that a job takes."""

    name: str
    help: str
    required: bool


class RunKind(Answer):
    """A job that can be run."""

    kind: str
    does: str
    parameters: list[RunParameter]


class RunKinds(Answer):
    items: list[RunKind]
    next_cursor: None = None


class StartRun(Body):
    kind: Annotated[Name, msgspec.Meta(examples=["audit"])]
    parameters: _Parameters = msgspec.field(default_factory=dict)
    reason: Text = ""


class RepeatRun(Body):
    reason: Text = ""


class CancelRun(Body):
    reason: Text = ""


class ListRuns(PageQuery):
    kind: Name | None = None
    state: _State | None = None
    who: Name | None = None


class Stage(Answer):
    """The present stage of a run: ``done`` of ``total`` parts of the work are finished."""

    name: str
    done: int
    total: int


class Run(Answer):
    """``figures`` come while it runs (``rows_in``, ``rows_out``, ``offsets``). ``found``: whether a
    run that is done has findings, as an audit has when it finds contradictions."""

    id: int
    kind: str
    parameters: dict[str, str]
    origin: Literal["console", "api", "command", "schedule"]
    who: str
    reason: str
    repeats: int | None
    state: _State
    stage: Stage
    figures: dict[str, Any]
    found: bool
    exit_code: int | None
    error: str
    created_at: Time
    started_at: Time | None
    heartbeat_at: Time | None
    ended_at: Time | None
    cancel_requested_at: Time | None
    cancel_requested_by: str

    @classmethod
    def of(cls, run: PipelineRun) -> Run:
        return cls(**_run(run))


class RunWithResult(Run):
    """A run with the job's result, and the end of its log."""

    result: dict[str, Any] | None
    log_tail: str

    @classmethod
    def whole(cls, run: PipelineRun) -> RunWithResult:
        return cls(**_run(run), result=run.result, log_tail=run.log_tail)


class RunPage(Answer):
    items: list[Run]
    next_cursor: str | None


def _run(run: PipelineRun) -> dict[str, Any]:
    return {
        "id": run.pk,
        "kind": run.kind,
        "parameters": run.parameters,
        "origin": str(run.origin),
        "who": run.who,
        "reason": run.reason,
        "repeats": run.repeats,
        "state": str(run.state),
        "stage": Stage(name=run.stage, done=run.stage_done, total=run.stage_total),
        "figures": run.figures,
        "found": run.found,
        "exit_code": run.exit_code,
        "error": run.error,
        "created_at": time_text(run.created_at),
        "started_at": optional_time(run.started_at),
        "heartbeat_at": optional_time(run.heartbeat_at),
        "ended_at": optional_time(run.ended_at),
        "cancel_requested_at": optional_time(run.cancel_requested_at),
        "cancel_requested_by": run.cancel_requested_by,
    }

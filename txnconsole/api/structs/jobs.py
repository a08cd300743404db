"""Background jobs (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from engine.model.moment import time_text
from txnconsole.api.structs.fields import (
    INT64_MAX,
    Answer,
    Body,
    Name,
    PageQuery,
    Reason,
    Text,
    Time,
    optional_time,
)
from txnconsole.api.structs.transactions import FilterTransactions
from txnconsole.jobs.models import Job as StoredJob
from txnconsole.jobs.models import JobItem as StoredItem
from txnconsole.runs.models import PipelineRun

#: The prefix of a pipeline run's number in the list of jobs.
RUN = "run-"
_ROOT = "/api/v1"
_State = Literal["queued", "running", "done", "failed", "cancelled"]
_ItemState = Literal["pending", "done", "failed"]


class BulkAbort(Body):
    """``expected_count`` is the number that the caller was shown; see the dry run."""

    filter: FilterTransactions
    reason: Reason
    expected_count: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class BulkAbortCount(Answer):
    """``count`` is the number to expect. Transactions above ``limit`` are neither counted nor
    accepted."""

    count: int
    limit: int
    within_limit: bool


class ListJobs(PageQuery):
    state: _State | None = None
    kind: Name | None = None
    who: Name | None = None


class ListJobItems(PageQuery):
    state: _ItemState | None = None


class CancelJob(Body):
    reason: Text = ""


class Progress(Answer):
    """How many items; those that are neither done nor failed have not been tried."""

    total: int
    done: int
    failed: int


class Job(Answer):
    """``worker`` is the last one that worked on it; ``error`` is what keeps it from going on, or
    has ended it. For a pipeline run, the progress is that of its stage, and ``href`` leads to
    everything that is known of it."""

    id: Annotated[
        int | str,
        msgspec.Meta(
            description="A number; of a pipeline run `run-` and its number.", examples=[17, "run-4"]
        ),
    ]
    kind: str
    href: Annotated[str, msgspec.Meta(examples=["/api/v1/pipeline/runs/4"])]
    who: str
    reason: str
    state: _State
    parameters: dict[str, Any]
    progress: Progress
    error: str
    worker: str
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    cancel_requested_at: Time | None
    cancel_requested_by: str

    @classmethod
    def of(cls, job: StoredJob | PipelineRun) -> Job:
        return cls(**_any(job))


class JobItem(Answer):
    """``result`` is for programs: for a bulk abort ``aborted``, ``already_ended`` or
    ``refused``."""

    number: int
    object: Annotated[str, msgspec.Meta(examples=["transaction:3:42"])]
    state: _ItemState
    result: str
    detail: str
    ended_at: Time | None

    @classmethod
    def of(cls, item: StoredItem) -> JobItem:
        return cls(
            number=item.number,
            object=item.object,
            state=item.state,  # type: ignore[arg-type]  # The column's choices.
            result=item.result,
            detail=item.detail,
            ended_at=optional_time(item.ended_at),
        )


class JobPage(Answer):
    items: list[Job]
    next_cursor: str | None


class JobItemPage(Answer):
    items: list[JobItem]
    next_cursor: str | None


class JobWithItems(Job):
    """A job with a page of its items; ``next_cursor`` is for its ``/items``."""

    items: list[JobItem]
    next_cursor: str | None

    @classmethod
    def whole(cls, job: StoredJob | PipelineRun, page: JobItemPage) -> JobWithItems:
        return cls(**_any(job), items=page.items, next_cursor=page.next_cursor)


def _any(job: StoredJob | PipelineRun) -> dict[str, Any]:
    own = _run(job) if isinstance(job, PipelineRun) else _job(job)
    return own | {
        "kind": job.kind,
        "who": job.who,
        "reason": job.reason,
        "state": str(job.state),
        "parameters": job.parameters,
        "error": job.error,
        "created_at": time_text(job.created_at),
        "started_at": optional_time(job.started_at),
        "ended_at": optional_time(job.ended_at),
        "cancel_requested_at": optional_time(job.cancel_requested_at),
        "cancel_requested_by": job.cancel_requested_by,
    }


def _job(job: StoredJob) -> dict[str, Any]:
    return {
        "id": job.pk,
        "href": f"{_ROOT}/jobs/{job.pk}",
        "progress": Progress(total=job.total, done=job.done, failed=job.failed),
        "worker": job.worker,
    }


def _run(run: PipelineRun) -> dict[str, Any]:
    return {
        "id": f"{RUN}{run.pk}",
        "href": f"{_ROOT}/pipeline/runs/{run.pk}",
        "progress": Progress(total=run.stage_total, done=run.stage_done, failed=0),
        "worker": run.place,
    }

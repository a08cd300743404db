"""Background jobs: bulk aborts and their progress (design/api.md)."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable

import msgspec
from rest_framework.request import Request

from engine.model.page import decode_cursor, encode_cursor, foreign_cursor
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.operation import Call, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import page_by_number
from txnconsole.api.structs.fields import INT64_MAX
from txnconsole.api.structs.jobs import (
    RUN,
    BulkAbort,
    BulkAbortCount,
    CancelJob,
    Job,
    JobItem,
    JobItemPage,
    JobPage,
    JobWithItems,
    ListJobItems,
    ListJobs,
)
from txnconsole.api.structs.transactions import FilterTransactions
from txnconsole.jobs import bulk_abort, lifecycle
from txnconsole.jobs.errors import JobNotFound
from txnconsole.jobs.models import Job as StoredJob
from txnconsole.jobs.models import JobItem as StoredItem
from txnconsole.operations import jobs as operations
from txnconsole.runs import lifecycle as runs
from txnconsole.runs import operating
from txnconsole.runs.disclosing import as_shown_to
from txnconsole.runs.models import PipelineRun


class BulkAborts(Endpoint):
    @operation(
        "countBulkAbort",
        Permission.TRANSACTION_ABORT_ANY,
        Shape(query=FilterTransactions, answer=BulkAbortCount),
        summary="Tell how many transactions a bulk abort would take",
    )
    def get(self, call: Call[None, FilterTransactions]) -> BulkAbortCount:
        """A dry run that changes nothing. Without `status` it counts OPEN transactions."""
        limit = bulk_abort.MAX_TRANSACTIONS
        count = len(bulk_abort.matching(call.query.filter(None)))
        return BulkAbortCount(count=min(count, limit), limit=limit, within_limit=count <= limit)

    @operation(
        "bulkAbort",
        Permission.TRANSACTION_ABORT_ANY,
        Shape(keyed=True, body=BulkAbort, answer=Job, statuses=(202,)),
        summary="Abort all transactions that a filter matches",
    )
    def post(self, call: Call[BulkAbort, NoQuery]) -> Reply:
        """Starts a background job on exactly the transactions that match now. The filter is that of
        the list call; without a status it selects OPEN transactions.

        409 `CountChanged` with the actual `count` when it matches another number than expected, 413
        `PayloadTooLarge` when it matches more than one job takes; then nothing is aborted.
        """
        body, reason = call.body, call.body.reason.strip()
        parameters = {
            "filter": {
                name: value
                for name, value in msgspec.to_builtins(body.filter).items()
                if value not in (None, [], False)
            },
            "expected_count": body.expected_count,
        }
        job = operations.abort_matching(
            self.actor(),
            reason,
            body.filter.filter(None, within="filter."),
            expected_count=body.expected_count,
            parameters=parameters,
        )
        return Reply(Job.of(job), 202)


class Jobs(Endpoint):
    @operation(
        "listJobs",
        Permission.JOB_READ,
        Shape(query=ListJobs, answer=JobPage),
        summary="List background jobs",
    )
    def get(self, call: Call[None, ListJobs]) -> JobPage:
        """Bulk aborts and pipeline runs, newest first."""
        query = call.query
        job_id, run_id = _before(query.cursor)
        jobs = StoredJob.objects.filter(id__lt=job_id).order_by("-id")
        pipeline = PipelineRun.objects.filter(id__lt=run_id).order_by("-id")
        pipeline = pipeline.defer("figures", "result", "log_tail")
        for name in ("state", "kind", "who"):
            if getattr(query, name) is not None:
                jobs = jobs.filter(**{name: getattr(query, name)})
                pipeline = pipeline.filter(**{name: getattr(query, name)})
        kinds: list[Iterable[StoredJob | PipelineRun]] = [
            jobs[: query.limit + 1],
            pipeline[: query.limit + 1],
        ]
        # Of each kind by their numbers, as the cursor goes on: times may cross.
        found = list(heapq.merge(*kinds, key=lambda each: each.created_at, reverse=True))
        page = found[: query.limit]
        for each in page:
            if isinstance(each, StoredJob):
                job_id = each.pk
            else:
                run_id = each.pk
        return JobPage(
            items=[Job.of(_as_shown_to(call.principal, each)) for each in page],
            next_cursor=encode_cursor(job_id, run_id) if len(found) > query.limit else None,
        )


class JobEndpoint(Endpoint):
    """An address with a job in its path: a bulk abort, or a run (``run-7``)."""

    job_id: int
    is_run: bool

    def initial(self, request: Request, *args: object, **path: str) -> None:
        super().initial(request, *args, **path)
        number = path["job_id"].removeprefix(RUN)
        if not re.fullmatch("[0-9]{1,18}", number, re.ASCII):
            raise JobNotFound("A job is named by its number, a pipeline run by run- and its own.")
        self.is_run, self.job_id = number != path["job_id"], int(number)

    def find(self) -> StoredJob | PipelineRun:
        """The job.

        Raises:
            JobNotFound, RunNotFound: there is none.
        """
        return runs.find(self.job_id) if self.is_run else lifecycle.find(self.job_id)

    def page(self, query: ListJobItems) -> JobItemPage:
        """Its items; a run has none."""
        if self.is_run:
            return JobItemPage(items=[], next_cursor=None)
        return _items(self.job_id, query)


class OneJob(JobEndpoint):
    @operation(
        "getJob",
        Permission.JOB_READ,
        Shape(answer=JobWithItems, pages="listJobItems"),
        summary="Show a background job",
    )
    def get(self, call: Call[None, NoQuery]) -> JobWithItems:
        """Its progress, and the results of its first items; `next_cursor` is for its `/items`. A
        pipeline run has no items; its `href` leads to its results."""
        job = _as_shown_to(call.principal, self.find())
        return JobWithItems.whole(job, self.page(ListJobItems()))


class ItemsOfJob(JobEndpoint):
    @operation(
        "listJobItems",
        Permission.JOB_READ,
        Shape(query=ListJobItems, answer=JobItemPage),
        summary="List what a job does, with each result",
    )
    def get(self, call: Call[None, ListJobItems]) -> JobItemPage:
        """In the order in which they are carried out."""
        self.find()
        return self.page(call.query)


class CancellationOfJob(JobEndpoint):
    @operation(
        "cancelJob",
        Permission.JOB_CANCEL,
        Shape(keyed=True, body=CancelJob, answer=Job),
        summary="Cancel a background job",
    )
    def post(self, call: Call[CancelJob, NoQuery]) -> Job:
        """It stops after its current step, of a hundred items at most; what has been done stays
        done. Cancelling again is success; a job that is done or failed answers 409
        `InvalidJobState`."""
        reason = call.body.reason.strip()
        if self.is_run:
            return Job.of(operating.cancel(self.job_id, actor=self.actor(), reason=reason))
        return Job.of(operations.cancel(self.actor(), self.job_id, reason))


def _as_shown_to(principal: Principal, job: StoredJob | PipelineRun) -> StoredJob | PipelineRun:
    return as_shown_to(principal, job) if isinstance(job, PipelineRun) else job


def _items(job_id: int, query: ListJobItems) -> JobItemPage:
    items = StoredItem.objects.filter(job_id=job_id)
    if query.state is not None:
        items = items.filter(state=query.state)
    page, next_cursor = page_by_number(items, query, by="number")
    return JobItemPage(
        items=[JobItem.of(item) for item in page],
        next_cursor=next_cursor,
    )


def _before(cursor: str | None) -> tuple[int, int]:
    """The lowest numbers of a bulk abort and of a run that the list has given so far."""
    if cursor is None:
        return INT64_MAX, INT64_MAX
    job_id, run_id = decode_cursor(cursor, 2)
    if not (isinstance(job_id, int) and isinstance(run_id, int) and min(job_id, run_id) > 0):
        raise foreign_cursor()
    return job_id, run_id

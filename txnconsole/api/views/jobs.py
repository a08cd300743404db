"""Background jobs: bulk abort, and how far each is (design/api.md)."""

from __future__ import annotations

import msgspec
from rest_framework.request import Request

from engine.model.page import decode_cursor, encode_cursor
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import invalid
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.operation import Call, NoQuery, Reply, Shape, operation
from txnconsole.api.structs.fields import INT64_MAX
from txnconsole.api.structs.jobs import (
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
from txnconsole.audit.chain import Change, recorded
from txnconsole.jobs import bulk_abort, starting
from txnconsole.jobs.models import Job as StoredJob
from txnconsole.jobs.models import JobItem as StoredItem


class BulkAborts(Endpoint):
    @operation(
        "countBulkAbort",
        Permission.TRANSACTION_ABORT_ANY,
        Shape(query=FilterTransactions, answer=BulkAbortCount),
        summary="Tell how many transactions a bulk abort would take",
    )
    def get(self, call: Call[None, FilterTransactions]) -> BulkAbortCount:
        """A dry run: changes nothing. Without `status` it counts OPEN transactions."""
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
        """Starts a background job on exactly those that match now: the filter is that of the list
        call, and takes OPEN transactions when it names no status.

        409 `CountChanged` with the actual `count` when it matches another number than expected,
        413 `PayloadTooLarge` when it matches more than one job takes; nothing is aborted then.
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
        change = Change(self.actor(), "transaction.bulk_abort", "transactions", reason=reason)
        with recorded(change) as recording:
            recording.before = parameters
            job = bulk_abort.start_bulk_abort(
                self.actor(),
                reason,
                body.filter.filter(None),
                expected_count=body.expected_count,
                parameters=parameters,
            )
            recording.after = {"job": job.pk, "transactions": job.total}
        return Reply(Job.of(job), 202)


class Jobs(Endpoint):
    @operation(
        "listJobs",
        Permission.JOB_READ,
        Shape(query=ListJobs, answer=JobPage),
        summary="List background jobs",
    )
    def get(self, call: Call[None, ListJobs]) -> JobPage:
        """Newest first."""
        query = call.query
        jobs = StoredJob.objects.order_by("-id")
        for name in ("state", "kind", "who"):
            if getattr(query, name) is not None:
                jobs = jobs.filter(**{name: getattr(query, name)})
        if query.cursor is not None:
            jobs = jobs.filter(id__lt=_number(query.cursor))
        found = list(jobs[: query.limit + 1])
        page = found[: query.limit]
        return JobPage(
            items=[Job.of(job) for job in page],
            next_cursor=encode_cursor(page[-1].pk) if len(found) > query.limit else None,
        )


class JobEndpoint(Endpoint):
    """An address with a job in its path."""

    job_id: int

    def initial(self, request: Request, *args: object, **path: int) -> None:
        super().initial(request, *args, **path)
        self.job_id = min(path["job_id"], INT64_MAX)


class OneJob(JobEndpoint):
    @operation(
        "getJob",
        Permission.JOB_READ,
        Shape(answer=JobWithItems),
        summary="Show a background job",
    )
    def get(self, call: Call[None, NoQuery]) -> JobWithItems:
        """Its progress, and the first results of its items; `next_cursor` is for its `/items`."""
        job = starting.find(self.job_id)
        return JobWithItems.whole(job, _items(self.job_id, ListJobItems()))


class ItemsOfJob(JobEndpoint):
    @operation(
        "listJobItems",
        Permission.JOB_READ,
        Shape(query=ListJobItems, answer=JobItemPage),
        summary="List what a job does, with each result",
    )
    def get(self, call: Call[None, ListJobItems]) -> JobItemPage:
        """In the order in which they are carried out."""
        starting.find(self.job_id)
        return _items(self.job_id, call.query)


class CancellationOfJob(JobEndpoint):
    @operation(
        "cancelJob",
        Permission.JOB_CANCEL,
        Shape(keyed=True, body=CancelJob, answer=Job),
        summary="Cancel a background job",
    )
    def post(self, call: Call[CancelJob, NoQuery]) -> Job:
        """It stops after the step that is under way, a hundred items at most; what is done stays
        done. Cancelling again is success; a job that is done or failed answers 409
        `InvalidJobState`."""
        reason = call.body.reason.strip()
        change = Change(self.actor(), "job.cancel", f"job:{self.job_id}", reason=reason)
        with recorded(change) as recording:
            job = starting.cancel(self.job_id, call.principal.name)
            recording.after = {"state": str(job.state), "done": job.done, "failed": job.failed}
        return Job.of(job)


def _items(job_id: int, query: ListJobItems) -> JobItemPage:
    items = StoredItem.objects.filter(job_id=job_id).order_by("number")
    if query.state is not None:
        items = items.filter(state=query.state)
    if query.cursor is not None:
        items = items.filter(number__gt=_number(query.cursor))
    found = list(items[: query.limit + 1])
    page = found[: query.limit]
    return JobItemPage(
        items=[JobItem.of(item) for item in page],
        next_cursor=encode_cursor(page[-1].number) if len(found) > query.limit else None,
    )


def _number(cursor: str) -> int:
    (number,) = decode_cursor(cursor, 1)
    if not isinstance(number, int) or not 0 < number <= INT64_MAX:
        raise invalid("cursor", "is not one that this list has given")
    return number

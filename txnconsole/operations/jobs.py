"""Aborting many transactions at once, and stopping background jobs, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.model.transaction import TransactionFilter
from engine.model.txn_id import TxnID
from txnconsole.audit.recording import Actor, Change, recorded_atomically
from txnconsole.jobs import bulk_abort, lifecycle
from txnconsole.jobs.models import Job


def abort_matching(
    actor: Actor,
    reason: str,
    filter: TransactionFilter,
    *,
    expected_count: int,
    parameters: dict[str, Any],
) -> Job:
    """Start aborting what a filter matches; see
    :func:`txnconsole.jobs.bulk_abort.start_bulk_abort`."""
    return _started(
        actor,
        reason,
        parameters,
        lambda: bulk_abort.start_bulk_abort(
            actor, reason, filter, expected_count=expected_count, parameters=parameters
        ),
    )


def abort_each(
    actor: Actor, reason: str, txn_ids: Sequence[TxnID], *, parameters: dict[str, Any]
) -> Job:
    """Start aborting these transactions; see :func:`txnconsole.jobs.bulk_abort.start_on`."""
    return _started(
        actor,
        reason,
        parameters,
        lambda: bulk_abort.start_on(actor, reason, txn_ids, parameters=parameters),
    )


def cancel(actor: Actor, job_id: int, reason: str) -> Job:
    """Have a job stop after the step that is under way; see
    :func:`txnconsole.jobs.lifecycle.cancel`."""
    change = Change(actor, "job.cancel", f"job:{job_id}", reason=reason)
    with recorded_atomically(change) as recording:
        job = lifecycle.cancel(job_id, actor.name)
        recording.after = {"state": str(job.state), "done": job.done, "failed": job.failed}
    return job


def _started(
    actor: Actor, reason: str, parameters: dict[str, Any], start: Callable[[], Job]
) -> Job:
    change = Change(actor, "transaction.bulk_abort", "transactions", reason=reason)
    with recorded_atomically(change) as recording:
        recording.before = parameters
        job = start()
        recording.after = {"job": job.pk, "transactions": job.total}
    return job

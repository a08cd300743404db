"""Aborting all transactions that a filter matches (design/api.md, ``POST …/bulk-abort``).

The set is frozen when the job starts; what begins to match later is not touched. An abort that
this job has decided is known by the job's number in the transaction's ``end_detail``, so a step
that is done again tells its own aborts from another's.

Results of an item: ``aborted`` by this job, ``already_ended`` (somebody else has aborted it),
``refused`` (it commits, or is not known any more; ``detail`` says why).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.model.errors import (
    InvalidRequest,
    InvalidTxnStatus,
    PayloadTooLarge,
    TransactionNotFound,
)
from engine.model.transaction import Transaction, TransactionFilter, TransactionOrder
from engine.model.txn_id import TxnID
from engine.model.txn_status import ENDED, EndReason, TxnAction, TxnStatus, refuse_opposite_end
from txnconsole.audit.recording import DONE, Actor, Change
from txnconsole.enginedb.wiring import engine
from txnconsole.jobs.errors import CountChanged
from txnconsole.jobs.lifecycle import start
from txnconsole.jobs.models import ItemState, Job, JobItem
from txnconsole.jobs.results import ItemResult
from txnconsole.queue.wakeup import wake_finalizers_of

BULK_ABORT = "bulk_abort"
#: Transactions of one job.
MAX_TRANSACTIONS = 10_000

_OBJECT = "transaction:"
#: As many headers as a page looks at: a smaller one would have most of them looked at again.
_PAGE = 5000
#: Among so many transactions that are aborting those of a job are counted.
_ABORTING = 1000


def matching(
    filter: TransactionFilter, *, most: int = MAX_TRANSACTIONS, within: str = ""
) -> list[TxnID]:
    """The transactions that a bulk abort with this filter would take, the oldest first: OPEN ones
    unless it names statuses. One more than ``most`` stands for "more". ``within`` is where in the
    request the filter stands (``filter.``).

    Raises:
        InvalidRequest: the filter asks for a status that has ended.
    """
    ended = sorted(set(filter.statuses) & ENDED)
    if ended:
        message = f"{', '.join(ended)} transactions have ended; leave them out"
        raise InvalidRequest(f"status: {message}.", field={f"{within}status": message})
    wanted = replace(filter, statuses=filter.statuses or (TxnStatus.OPEN,))
    found: dict[TxnID, None] = {}  # One whose status changes between two pages may come twice.
    cursor: str | None = None
    while len(found) <= most:
        page = engine().coordinator.list(
            wanted, order=TransactionOrder.OLDEST, limit=min(_PAGE, most + 1), cursor=cursor
        )
        found |= dict.fromkeys(transaction.txn_id for transaction in page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    return list(found)[: most + 1]


def start_bulk_abort(
    actor: Actor,
    reason: str,
    filter: TransactionFilter,
    *,
    expected_count: int,
    parameters: dict[str, Any],
) -> Job:
    """Freeze what the filter matches, and start aborting it.

    Raises:
        CountChanged: that is another number than expected.
        PayloadTooLarge: it is more than :data:`MAX_TRANSACTIONS`.
        InvalidRequest: as :func:`matching`.
    """
    txn_ids = matching(filter, within="filter.")
    count = len(txn_ids)
    if count > MAX_TRANSACTIONS:
        raise PayloadTooLarge(
            f"The filter matches more than {MAX_TRANSACTIONS} transactions, the most that one job"
            " takes. Narrow it, by owner, topic or age for example.",
            limit=MAX_TRANSACTIONS,
        )
    if count != expected_count:
        raise CountChanged(
            f"The filter matches {count} transactions now, not {expected_count}. Look at them"
            " again, and expect as many as there are.",
            count=count,
            expected_count=expected_count,
        )
    return start_on(actor, reason, txn_ids, parameters=parameters)


def start_on(
    actor: Actor, reason: str, txn_ids: Sequence[TxnID], *, parameters: dict[str, Any]
) -> Job:
    """Start aborting exactly these transactions, in their order."""
    objects = [f"{_OBJECT}{txn_id}" for txn_id in txn_ids]
    return start(BULK_ABORT, actor, reason, parameters=parameters, objects=objects)


def abort_items(job: Job, items: Sequence[JobItem]) -> list[ItemResult]:
    """Decide to abort each item's transaction; workers carry the decisions out as ever."""
    txn_ids = [txn_id_of(item) for item in items]
    found = engine().groups.abort_open(txn_ids, detail=_detail(job))
    wake_finalizers_of(txn_ids)
    return [
        _result(job, item, found.get(txn_id)) for item, txn_id in zip(items, txn_ids, strict=True)
    ]


def on_their_way(job: Job) -> int:
    """How many of the job's aborts are decided and not carried out by all brokers yet; of very many
    aborts, of whomever, the newest are looked at."""
    if not job.done:
        return 0
    aborting = TransactionFilter(statuses=(TxnStatus.ABORTING,))
    found = engine().coordinator.list(aborting, limit=_ABORTING).items
    return sum(transaction.end_detail == _detail(job) for transaction in found)


def _result(job: Job, item: JobItem, ended: Transaction | None) -> ItemResult:
    """What came of an item, by its transaction as it is now; None was never issued."""
    try:
        if ended is None:
            raise TransactionNotFound
        refuse_opposite_end(ended.status, TxnAction.ABORT, txn_id=ended.txn_id)
    except (InvalidTxnStatus, TransactionNotFound) as error:
        change = _change(job, item, {}, result=error.code)
        return ItemResult(ItemState.FAILED, "refused", error.message, change)
    if ended.end_reason is EndReason.OPERATOR and ended.end_detail == _detail(job):
        after = {"status": ended.status, "job": job.pk}
        return ItemResult(ItemState.DONE, "aborted", "", _change(job, item, after))
    return ItemResult(ItemState.DONE, "already_ended", _why(ended))


def _detail(job: Job) -> str:
    """What the transaction log keeps of the reason; names the job, and so tells its aborts."""
    return f"{job.reason} (job {job.pk})"


def _why(ended: Transaction) -> str:
    """How a transaction came to be aborted that this job has not aborted."""
    return ": ".join(part for part in (ended.end_reason, ended.end_detail) if part)


def _change(job: Job, item: JobItem, after: dict[str, object], result: str = DONE) -> Change:
    actor = Actor(job.who, job.token_id, job.request_id)
    return Change(
        actor, "transaction.abort", item.object, reason=job.reason, after=after, result=result
    )


def txn_id_of(item: JobItem) -> TxnID:
    """The transaction that an item is about."""
    return TxnID.parse(item.object.removeprefix(_OBJECT))

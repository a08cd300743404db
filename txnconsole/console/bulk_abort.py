"""Aborting many transactions at once: which ones, what it would do, and the job that does it.

The set is frozen when the dialog is shown, so what is confirmed is what was counted, whatever has
been opened or has aged since. The job reports transactions that have ended meanwhile as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine.inspect.holdings import JointEffect
from engine.model.errors import InvalidRequest
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.audit.recording import Actor
from txnconsole.console.reads import Region, region
from txnconsole.console.transaction_query import QueryError, parse
from txnconsole.enginedb.wiring import engine
from txnconsole.jobs.bulk_abort import matching, txn_id_of
from txnconsole.jobs.models import ItemState, Job, JobItem
from txnconsole.operations.jobs import abort_each

#: How many owners, and how many partitions, a dialog names.
NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The transactions that a bulk abort is about, as they were when the dialog was shown.

    Attributes:
        transactions: the OPEN ones, which it would abort.
        passed_over: how many of those chosen are not OPEN any more.
        more: whether the query matches more than may be taken at once.
        origin: how they were chosen, for the job's parameters.
    """

    transactions: Sequence[Transaction]
    passed_over: int
    more: bool
    origin: dict[str, object]

    @property
    def txn_ids(self) -> list[TxnID]:
        return [one.txn_id for one in self.transactions]

    @property
    def owners(self) -> list[tuple[str, int]]:
        """The owners of the transactions with how many each has, the most first."""
        return Counter(one.owner for one in self.transactions).most_common(NAMED)

    @property
    def other_owners(self) -> int:
        return len({one.owner for one in self.transactions}) - len(self.owners)

    def effect(self) -> Region[JointEffect]:
        """What aborting all of them would do, or why that is unknown."""
        return region(lambda: engine().inspect.transactions.joint_effect(self.txn_ids))


def chosen(txn_ids: Sequence[TxnID], *, most: int, origin: dict[str, object]) -> Selection:
    """Select by ids.

    Raises:
        CoordinatorUnavailable: it is unknown which of them are OPEN.
    """
    ids = list(dict.fromkeys(txn_ids))
    found = engine().coordinator.get_many(ids[:most])
    open_ = [one for one in found.values() if one.status is TxnStatus.OPEN]
    return Selection(
        transactions=sorted(open_, key=lambda one: one.txn_id),
        passed_over=min(len(ids), most) - len(open_),
        more=len(ids) > most,
        origin=origin,
    )


def matched(text: str, *, me: str, most: int) -> Selection:
    """Select by a query, frozen now.

    Raises:
        InvalidRequest: the query is malformed, or asks for transactions that have ended.
    """
    try:
        query = parse(text, me=me)
    except QueryError as error:
        raise InvalidRequest(str(error), field="query") from error
    ids = list(query.txn_ids) or matching(query.filter, most=most)
    return chosen(ids, most=most, origin={"query": text})


def not_done_by(job: Job, *, most: int) -> Selection:
    """Select what a job that is over has failed to abort, or has not come to."""
    items = JobItem.objects.filter(job=job).exclude(state=ItemState.DONE).order_by("number")
    ids = [txn_id_of(item) for item in items[: most + 1]]
    return chosen(ids, most=most, origin={"retry_of": job.pk})


def start(actor: Actor, reason: str, txn_ids: Sequence[TxnID], origin: dict[str, object]) -> Job:
    """Start the job; ``origin`` tells how its transactions were chosen."""
    parameters = {"transactions": len(txn_ids)} | origin
    return abort_each(actor, reason, txn_ids, parameters=parameters)

"""Ending several transactions at once: as a group, by one atomic decision (design/pipeline.md,
"Write"), or only those that are still open.

All coordinators are in one database, so a decision over several of them is one SQL transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine import tracing
from engine.coordinator.archive import find_all, find_archived, not_found
from engine.log.rows import txn_of
from engine.model.errors import InvalidRequest, ProducerFenced
from engine.model.transaction import EndedGroup, Transaction
from engine.model.txn_id import TxnID, id_lists
from engine.model.txn_status import DECISION, EndReason, TxnAction, TxnStatus, refuse_opposite_end
from engine.postgres.database import Database
from engine.postgres.session import Row, Session

MAX_GROUP = 10_000


class Groups:
    """Ends of groups, which are idempotent under the group's key, and operators' aborts of many
    transactions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def end(
        self,
        group: str,
        guard: str,
        *,
        commit: Sequence[TxnID] = (),
        abort: Sequence[TxnID] = (),
        owner: str | None = None,
    ) -> EndedGroup:
        """Decide all transactions of a group, or none.

        A call with the key of a group that has been decided is a duplicate: it changes nothing, and
        answers the statuses of the transactions that were decided the first time.

        Args:
            group: the key of the group.
            guard: names who may repeat the call; a duplicate needs the same guard.

        Raises:
            InvalidRequest: the key is empty or too long, there are too many ids, or one is to be
                both committed and aborted.
            ProducerFenced: the group was decided under another guard or by another owner.
            TransactionNotFound, CoordinatorNotFound: an id does not exist or is not ``owner``'s;
                nothing was decided.
            InvalidTxnStatus: one has been ended the opposite way; nothing was decided.
        """
        _check(group, commit, abort)

        def work(session: Session) -> tuple[list[TxnID], bool]:
            claimed = session.one(
                "claim_group",
                group_key=group,
                guard=guard,
                owner=owner or "",
                committed=[str(txn) for txn in commit],
                aborted=[str(txn) for txn in abort],
            )
            if claimed is None:
                return _decided_before(session.one("find_group", group_key=group), guard, owner)
            _decide(session, commit, abort, owner)
            return [*commit, *abort], True

        with tracing.span("decide group", transactions=len(commit) + len(abort)):
            txn_ids, first = self._database.retrying(work)
        return EndedGroup(statuses=self._statuses(txn_ids), duplicate=not first)

    def abort_open(self, txn_ids: Sequence[TxnID], *, detail: str) -> dict[TxnID, Transaction]:
        """For an operator, decide to abort those of some transactions that are OPEN; the others
        stay as they are.

        Returns:
            The headers of all of them after that, without participants; ids that were never issued
            are left out.
        """

        def work(session: Session) -> dict[TxnID, Transaction]:
            session.all("lock_headers", **id_lists(txn_ids))
            session.run(
                "decide_many",
                **id_lists(txn_ids),
                decisions=[str(DECISION[TxnAction.ABORT])] * len(txn_ids),
                reason=EndReason.OPERATOR,
                detail=detail,
                trace_parent=tracing.traceparent(),
            )
            return find_all(session, txn_ids)

        return self._database.retrying(work)

    def _statuses(self, txn_ids: Sequence[TxnID]) -> dict[TxnID, TxnStatus]:
        with self._database.session() as session:
            found = find_all(session, txn_ids)
        return {txn_id: found[txn_id].status for txn_id in txn_ids}


def _check(group: str, commit: Sequence[TxnID], abort: Sequence[TxnID]) -> None:
    if not group or len(group) > 500:
        raise InvalidRequest("group must have 1 to 500 characters.", field="group")
    if len(commit) + len(abort) > MAX_GROUP:
        raise InvalidRequest(
            f"A group has at most {MAX_GROUP} transactions.", field="abort" if abort else "commit"
        )
    both = set(commit) & set(abort)
    if both:
        raise InvalidRequest(f"{min(both)} stands under commit and under abort.", field="abort")


def _decided_before(row: Row | None, guard: str, owner: str | None) -> tuple[list[TxnID], bool]:
    if row is None or row.guard != guard or row.owner != (owner or row.owner):
        raise ProducerFenced(
            "This group has been decided under another guard: another run of the same sink, or a"
            " lost checkpoint. Nothing was changed."
        )
    return [TxnID.parse(text) for text in (*row.committed, *row.aborted)], False


def _decide(
    session: Session, commit: Sequence[TxnID], abort: Sequence[TxnID], owner: str | None
) -> None:
    wanted = dict.fromkeys(commit, TxnAction.COMMIT) | dict.fromkeys(abort, TxnAction.ABORT)
    found: dict[TxnID, Any] = {
        txn_of(row): row for row in session.all("lock_headers", **id_lists(wanted))
    }
    if len(found) < len(wanted):
        found |= find_archived(session, wanted.keys() - found.keys())
    for txn, action in wanted.items():
        row = found.get(txn)
        if row is None or (owner is not None and row.owner != owner):
            raise not_found(session, txn)
        reason = EndReason(row.end_reason) if row.end_reason else None
        refuse_opposite_end(TxnStatus(row.status), action, txn_id=txn, reason=reason)
    session.run(
        "decide_many",
        **id_lists(wanted),
        decisions=[str(DECISION[action]) for action in wanted.values()],
        reason=EndReason.CLIENT,
        detail=None,
        trace_parent=tracing.traceparent(),
    )

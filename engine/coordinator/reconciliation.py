"""After the coordinators' database has lost its newest changes, and the brokers have not.

A standby that lagged was promoted, or a copy was restored that is older than the brokers'. Then the
coordinators would issue ids a second time, and decide again what brokers have carried out. What the
brokers tell is taken over, while nothing else runs (docs/operations.md): no id and no topic's id is
issued again; a transaction that is OPEN here and has ended on a broker ends as it did there; one
that is unknown here has ended, committed where any broker has committed it, else aborted. So has
one that is OPEN here and that a low water mark has passed: where nothing tells how it ended,
nothing is left of it. What has to be carried out still, the finalizer and the low water marks do
(semantics §3, §4).

Nothing is decided against a broker, so all of it can be repeated, also after a crash in the middle:
the ids come first, in one SQL transaction, the ends of what is OPEN one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from engine.coordinator.continuity import Continuity, open_though_ended
from engine.coordinator.coordinator import Coordinator
from engine.coordinator.remedies import Remedies
from engine.log.brokers import Brokers
from engine.log.holders import ABANDONED
from engine.log.rows import txn_of
from engine.model.errors import InvalidTxnStatus
from engine.model.txn_id import TxnID, id_lists
from engine.model.txn_status import EndReason, TxnAction, TxnStatus
from engine.postgres.database import Database
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)

_DETAIL = "Taken over from the brokers: the coordinators' database had lost it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What was taken over: transactions that were unknown, by outcome, and those that were OPEN and
    have ended, or got participants that they did not list."""

    committed: tuple[TxnID, ...]
    aborted: tuple[TxnID, ...]
    ended: tuple[TxnID, ...]
    registered: tuple[TxnID, ...]


class Reconciliation:
    """Takes over from the brokers what the coordinators have lost."""

    def __init__(
        self,
        database: Database,
        coordinator: Coordinator,
        remedies: Remedies,
        brokers: Brokers,
        continuity: Continuity,
    ) -> None:
        self._database = database
        self._coordinator = coordinator
        self._remedies = remedies
        self._brokers = brokers
        self._continuity = continuity

    def reconcile(self) -> Reconciled:
        """Take over all that the brokers tell.

        Raises:
            PartitionUnavailable, TimeLimitExceeded: a broker cannot be asked; what has been taken
                over by then stays.
        """
        with self._database.as_it_is():
            done = self._taken_over()
            with self._database.session() as session:
                self._continuity.require(session)
        logger.warning(
            "coordinators reconciled",
            committed=len(done.committed),
            aborted=len(done.aborted),
            ended=len(done.ended),
            registered=len(done.registered),
        )
        return done

    def _taken_over(self) -> Reconciled:
        topic_id, tc_id = self._highest_ids()
        with self._database.session() as session:
            session.run("ensure_coordinators", count=tc_id + 1)
        ends = self._ends_on_brokers()
        committed, aborted = self._database.retrying(lambda s: _adopt(s, ends, topic_id))
        adopted = {*committed, *aborted}
        ended, registered = [], []
        for txn_id, action in ends.items():
            if txn_id in adopted or self._coordinator.get(txn_id).status is not TxnStatus.OPEN:
                continue
            if action is not None:
                reason = EndReason.OPERATOR
                self._coordinator.end(txn_id, action, reason=reason, detail=_DETAIL)
                ended.append(txn_id)
            elif self._register(txn_id):
                registered.append(txn_id)
        self._leave_out_what_was_deleted()
        return Reconciled(
            committed=tuple(committed),
            aborted=tuple(aborted),
            ended=tuple(ended),
            registered=tuple(registered),
        )

    def _leave_out_what_was_deleted(self) -> None:
        """Of a commit, take out the subscriptions that refuse it: deleted by force since the copy
        was taken, and made anew. They would refuse it for ever. One that has given something back,
        on any broker, has carried out the opposite end: that stays, and raises its alarm."""
        with self._database.session() as session:
            committing = list(map(txn_of, session.all("committing_acks")))
        refused: dict[tuple[TxnID, int, str], bool] = {}
        for broker in self._brokers:
            with broker.session() as asked:
                for row in asked.all("acks_aborted_among", **id_lists(committing)):
                    part = txn_of(row), row.topic_id, row.subscription
                    refused[part] = refused.get(part, False) or row.gave_back
        parts = [part for part, gave_back in refused.items() if not gave_back]
        # A second call, or a finalizer that still runs, may lock the same rows in another order.
        self._database.retrying(
            lambda session: session.run(
                "abandon_parts",
                **id_lists(txn_id for txn_id, _, _ in parts),
                topic_ids=[topic_id for _, topic_id, _ in parts],
                subscriptions=[subscription for _, _, subscription in parts],
                error=ABANDONED,
            )
        )

    def _ends_on_brokers(self) -> dict[TxnID, TxnAction | None]:
        """How transactions that have not ended, as far as the coordinators know, have ended on the
        brokers, by id; None: on none."""
        ends: dict[TxnID, TxnAction | None] = {}
        ended: list[Row] = []
        passed: dict[int, int] = {}
        stats = self._coordinator.stats()
        wanted = {
            "tc_ids": [each.tc_id for each in stats],
            "sequences": [each.low_water_mark + 1 for each in stats],
        }
        with self._database.session() as session:
            open_ids = list(map(txn_of, session.all("open_ids")))
        among = {f"open_{name}": ids for name, ids in id_lists(open_ids).items()}
        for broker in self._brokers:
            with broker.session() as session:
                for name in ("evidence", "told_by_acks"):
                    for row in session.all(name, **wanted):
                        ends[txn_of(row)] = _stronger(ends.get(txn_of(row)), _action(row))
                ended += session.all("ended_among", **wanted, **among)
                for row in session.all("highest_marks"):
                    passed[row.tc_id] = max(passed.get(row.tc_id, -1), row.low_water_mark)
        with self._database.session() as session:
            certain = open_though_ended(session, ended)
        for txn_id in open_ids:
            if txn_id in certain or txn_id.sequence <= passed.get(txn_id.tc_id, -1):
                ends[txn_id] = ends.get(txn_id) or TxnAction.ABORT
            elif ends.get(txn_id) is TxnAction.ABORT:
                ends[txn_id] = None  # Its part in a subscription was, by a deletion by force.
        return dict(sorted(ends.items()))

    def _highest_ids(self) -> tuple[int, int]:
        """Of topics and of coordinators that a broker knows."""
        topic_id, tc_id = 0, -1
        for broker in self._brokers:
            with broker.session() as session:
                [row] = session.all("highest_ids")
            topic_id, tc_id = max(topic_id, row.topic_id), max(tc_id, row.tc_id)
        return topic_id, tc_id

    def _register(self, txn_id: TxnID) -> bool:
        """Let an OPEN transaction list all that holds something of it; answers whether any did
        not."""
        try:
            self._remedies.retry(txn_id)
        except InvalidTxnStatus:
            return False  # All of its participants are listed.
        return True


def _adopt(
    session: Session, ends: Mapping[TxnID, TxnAction | None], topic_id: int
) -> tuple[list[TxnID], list[TxnID]]:
    """Make headers for what is not known; answers what was committed and what was aborted. Of ids
    between those that the brokers tell of, nothing is left anywhere."""
    session.one("pass_over_topics", topic_id=topic_id)
    newest = {txn_id.tc_id: txn_id.sequence for txn_id in ends}  # They come in order.
    lost: dict[TxnID, TxnAction | None] = {}
    for row in session.all("hold_coordinators"):
        for sequence in range(row.next_sequence, newest.get(row.tc_id, -1) + 1):
            txn_id = TxnID(row.tc_id, sequence)
            lost[txn_id] = ends.get(txn_id)
    committed = [txn_id for txn_id, action in lost.items() if action is TxnAction.COMMIT]
    aborted = [txn_id for txn_id, action in lost.items() if action is not TxnAction.COMMIT]
    session.run(
        "adopt_txns",
        **id_lists(lost),
        aborted=[action is not TxnAction.COMMIT for action in lost.values()],
        detail=_DETAIL,
    )
    return committed, aborted


def _action(row: Row) -> TxnAction | None:
    if row.committed:
        return TxnAction.COMMIT
    return TxnAction.ABORT if row.aborted else None


def _stronger(one: TxnAction | None, other: TxnAction | None) -> TxnAction | None:
    """A commit anywhere was a decision to commit; what is torn, the invariants tell."""
    return TxnAction.COMMIT if TxnAction.COMMIT in (one, other) else one or other

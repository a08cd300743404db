"""Rules: the lives of transactions."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import strategies as st
from hypothesis.stateful import rule

from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import coordinator_sql, overdue, unreachable
from tests.model.world import ACTION, OWNER, TXN, World, drawn


class Transactions(World):
    """Opening, ending, expiring and carrying out."""

    @rule(
        tc_id=drawn(lambda machine: [0, 1, machine.newest]), owner=st.sampled_from(["alice", "bob"])
    )
    def open(self, tc_id: int, owner: str) -> None:
        self.equal(
            "open",
            lambda: self.engine.coordinator.open(owner=owner, tc_id=tc_id).txn_id,
            lambda: self.reference.coordinators.open(tc_id, owner),
        )

    @rule(txn_id=TXN, action=ACTION, owner=OWNER)
    def end(self, txn_id: TxnID, action: TxnAction, owner: str | None) -> None:
        self.equal(
            "end",
            lambda: self.engine.coordinator.end(txn_id, action, owner=owner).status,
            lambda: self.reference.end(txn_id, action, owner),
        )

    @rule(
        group=st.sampled_from(["g", "h"]),
        guard=st.sampled_from(["q", "q", "r"]),
        commit=st.lists(TXN, max_size=2, unique=True),
        abort=st.lists(TXN, max_size=1),
        owner=OWNER,
    )
    def end_group(
        self, group: str, guard: str, commit: list[TxnID], abort: list[TxnID], owner: str | None
    ) -> None:
        def real() -> tuple[object, bool]:
            ended = self.engine.groups.end(group, guard, commit=commit, abort=abort, owner=owner)
            return dict(ended.statuses), ended.duplicate

        self.equal(
            "end_group",
            real,
            lambda: self.reference.coordinators.end_group(group, guard, commit, abort, owner),
        )

    @rule(txn_id=TXN, then=st.sampled_from(["expire", "expire", "extend", "commit"]))
    def pass_the_deadline(self, txn_id: TxnID, then: str) -> None:
        overdue(self.engine, txn_id)
        if txn_id in self.reference.coordinators.txns:
            self.reference.coordinators.txns[txn_id].overdue = True
        if then == "extend":
            self.agree(
                "extend",
                lambda: self.engine.coordinator.extend(txn_id, 60_000),
                lambda: self.reference.coordinators.extend(txn_id),
            )
        if then == "commit":
            self.end(txn_id, TxnAction.COMMIT, None)
        self.equal("expire", lambda: {*self.engine.coordinator.expire()}, self.reference.expire)

    @rule(txn_id=TXN, action=ACTION)
    def end_and_carry_out(self, txn_id: TxnID, action: TxnAction) -> None:
        self.end(txn_id, action, None)
        self.finalize(txn_id.tc_id, 1000, ())

    @rule(
        tc_id=st.sampled_from([0, 0, 1]),
        limit=st.sampled_from([1000, 1000, 1, 2]),
        away=st.sampled_from([(), (), (), ("broker-1",), ("broker-2",)]),
    )
    def finalize(self, tc_id: int, limit: int, away: tuple[str, ...]) -> None:
        """Carry out what is due, or a part of it, or with a broker that cannot be reached."""
        self._due_in_order()

        def real() -> tuple[int, int]:
            with ExitStack() as stack:
                for broker in away:
                    stack.enter_context(unreachable(self.engine, broker, patience=0.01))
                done = self.engine.finalizer.finalize(tc_id, limit=limit)
            return done.ended, done.waiting

        self.equal("finalize", real, lambda: self.reference.finalize(tc_id, limit, away))

    def _due_in_order(self) -> None:
        """Every back-off has passed, and nothing counts as tried, which would come after the rest:
        what was decided first is due first."""
        for rank, txn in enumerate(self.reference.coordinators.decided):
            coordinator_sql(
                self.engine,
                "UPDATE coordinator.transaction"
                " SET next_attempt_at = timestamptz '2000-01-01' + %s * interval '1 s',"
                " attempts = 0"
                " WHERE (tc_id, sequence) = (%s, %s)",
                rank,
                txn.txn_id.tc_id,
                txn.txn_id.sequence,
            )

"""The reference engine's coordinators: lists, dicts and the rules of semantics §2 and §3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.model.errors import (
    InvalidRequest,
    InvalidTxnStatus,
    ProducerFenced,
    TransactionNotFound,
)
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, Outcome, TxnAction, TxnStatus

#: A partition (topic, number) or a subscription's share on one broker ((topic, name), broker).
Participant = tuple[object, object]

OPEN, COMMITTING, COMMITTED, ABORTING, ABORTED = TxnStatus


@dataclass
class Txn:
    """One transaction. ``log`` holds ``(op, expected, new, participants)``."""

    txn_id: TxnID
    owner: str
    status: TxnStatus = OPEN
    overdue: bool = False
    end_reason: EndReason | None = None
    partitions: dict[Participant, str] = field(default_factory=dict)
    subscriptions: dict[Participant, str] = field(default_factory=dict)
    #: Subscriptions (topic, name) that were deleted by force while it had a part in them.
    abandoned: set[object] = field(default_factory=set)
    log: list[tuple[object, ...]] = field(default_factory=lambda: [("NEW", None, OPEN, ())])

    #: Of its record the outcome and the owner are left alone.
    archived: bool = False

    @property
    def action(self) -> TxnAction | None:
        """What has been decided, for ever."""
        if self.status is OPEN:
            return None
        return TxnAction.COMMIT if self.status in (COMMITTING, COMMITTED) else TxnAction.ABORT

    @property
    def ended(self) -> bool:
        return self.status in (COMMITTED, ABORTED)

    def move(self, status: TxnStatus) -> None:
        self.log.append(("UPDATE", self.status, status, ()))
        self.status = status


class Coordinators:
    """All coordinators; ``decided`` holds what waits to be carried out, in order."""

    def __init__(self, count: int) -> None:
        self.issued = dict.fromkeys(range(count), 0)
        self.txns: dict[TxnID, Txn] = {}
        self.decided: list[Txn] = []
        self.groups: dict[str, tuple[str, str | None, list[TxnID]]] = {}

    def open(self, tc_id: int, owner: str) -> TxnID:
        """Sequences from 0, each once (§2)."""
        txn_id = TxnID(tc_id, self.issued[tc_id])
        self.issued[tc_id] += 1
        self.txns[txn_id] = Txn(txn_id, owner)
        return txn_id

    def find(self, txn_id: TxnID, owner: str | None = None) -> Txn:
        """Another principal's transaction answers as one that is not there (§2)."""
        txn = self.txns.get(txn_id)
        if txn is None or owner not in (None, txn.owner):
            raise TransactionNotFound
        return txn

    def join(
        self,
        txn_id: TxnID,
        owner: str | None,
        *,
        partitions: Iterable[Participant] = (),
        subscriptions: Iterable[Participant] = (),
    ) -> None:
        """Participants join while OPEN, each once (§2)."""
        txn = self.find(txn_id, owner)
        if txn.status is not OPEN:
            raise InvalidTxnStatus
        for op, members, wanted in (
            ("ADD_PARTITION", txn.partitions, partitions),
            ("ADD_SUBSCRIPTION", txn.subscriptions, subscriptions),
        ):
            new = [participant for participant in wanted if participant not in members]
            # Also where its topic has grown onto another broker since.
            members |= {p: "aborted" if p[0] in txn.abandoned else "pending" for p in new}
            if new:
                txn.log.append((op, None, None, tuple(new)))

    def end(
        self,
        txn_id: TxnID,
        action: TxnAction,
        owner: str | None = None,
        reason: EndReason = EndReason.CLIENT,
    ) -> TxnStatus:
        """The same end again is success, the opposite one is refused (§2)."""
        txn = self.find(txn_id, owner)
        self._decide(txn, action, reason)
        return txn.status

    def end_group(
        self,
        group: str,
        guard: str,
        commit: Sequence[TxnID],
        abort: Sequence[TxnID],
        owner: str | None = None,
    ) -> tuple[dict[TxnID, TxnStatus], bool]:
        """All of them or none, once under the group's key; answers whether it was a duplicate."""
        if set(commit) & set(abort):
            raise InvalidRequest("One is in both lists.", field="abort")
        known = self.groups.get(group)
        if known is None:
            for txn_ids, action in ((commit, TxnAction.COMMIT), (abort, TxnAction.ABORT)):
                for txn_id in txn_ids:
                    if self.find(txn_id, owner).action not in (None, action):
                        raise InvalidTxnStatus
            for txn_ids, action in ((commit, TxnAction.COMMIT), (abort, TxnAction.ABORT)):
                for txn_id in txn_ids:
                    self._decide(self.txns[txn_id], action, EndReason.CLIENT)
            self.groups[group] = (guard, owner, [*commit, *abort])
        elif known[0] != guard or owner not in (None, known[1]):
            raise ProducerFenced
        return {txn_id: self.txns[txn_id].status for txn_id in self.groups[group][2]}, bool(known)

    def extend(self, txn_id: TxnID, owner: str | None = None) -> None:
        txn = self.find(txn_id, owner)
        if txn.status is not OPEN:
            raise InvalidTxnStatus
        txn.overdue = False

    def expire(self) -> set[TxnID]:
        """OPEN past its deadline is aborted, once (§3)."""
        due = [txn for txn in self.txns.values() if txn.status is OPEN and txn.overdue]
        for txn in due:
            self._decide(txn, TxnAction.ABORT, EndReason.TIMEOUT)
        return {txn.txn_id for txn in due}

    def conclude(self, txn: Txn) -> bool:
        """COMMITTED or ABORTED once every participant is done (§3)."""
        if "pending" in (*txn.partitions.values(), *txn.subscriptions.values()):
            return False
        txn.move(COMMITTED if txn.status is COMMITTING else ABORTED)
        self.decided.remove(txn)
        return True

    def archive(self) -> None:
        """Forget of all that have ended how they did (§2)."""
        for txn in self.txns.values():
            if txn.ended:
                txn.archived = True
                txn.end_reason = None
                txn.partitions, txn.subscriptions, txn.log = {}, {}, []

    def outcome(self, txn_id: TxnID) -> Outcome:
        """Answerable for every id ever issued (§2)."""
        action = self.find(txn_id).action
        if action is None:
            return Outcome.UNDECIDED
        return Outcome.COMMITTED if action is TxnAction.COMMIT else Outcome.ABORTED

    def low_water_mark(self, tc_id: int) -> int:
        """(Lowest sequence not ended) - 1, or the highest issued (§3)."""
        alive = [t.sequence for t, txn in self.txns.items() if t.tc_id == tc_id and not txn.ended]
        return min(alive, default=self.issued[tc_id]) - 1

    def holders(self, participant: Participant) -> list[TxnID]:
        """Transactions for which a participant still has something to do (§7)."""
        return [
            txn.txn_id
            for txn in self.txns.values()
            if "pending" in (txn.partitions.get(participant), txn.subscriptions.get(participant))
        ]

    def _decide(self, txn: Txn, action: TxnAction, reason: EndReason) -> None:
        if txn.action not in (None, action):
            raise InvalidTxnStatus
        if txn.action is None:
            txn.move(COMMITTING if action is TxnAction.COMMIT else ABORTING)
            txn.end_reason = reason
            self.decided.append(txn)

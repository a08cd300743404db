"""The algebra of a cursor against plain sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.cursor import Cursor, claim_cumulative, claim_individual, held, replay
from engine.model.errors import TransactionConflict
from engine.model.ranges import Ranges
from engine.model.subscription import AckOp, AckStep, AckType, PendingAck
from engine.model.txn_id import TxnID

MINE, OTHER = TxnID(0, 1), TxnID(0, 2)
OFFSETS = st.sets(st.integers(0, 20))


def pending(txn_id: TxnID, *offsets: int) -> PendingAck:
    return PendingAck(txn_id=txn_id, ack_type=AckType.INDIVIDUAL, ranges=Ranges.of_offsets(offsets))


def deleted(cursor: Cursor) -> set[int]:
    return {*range(cursor.mark_delete + 1), *cursor.acked}


@given(st.lists(OFFSETS))
def test_deleting_is_a_union_that_keeps_mark_delete_as_high_as_can_be(acks: list[set[int]]) -> None:
    cursor, expected = Cursor(mark_delete=-1), set[int]()
    for ack in acks:
        cursor = cursor.delete(Ranges.of_offsets(ack))
        expected |= ack
        assert deleted(cursor) == expected
        assert cursor.mark_delete + 1 not in cursor.acked
        assert cursor.acked.first is None or cursor.acked.first > cursor.mark_delete


@given(OFFSETS, OFFSETS)
def test_undeleted_is_what_is_left(acked: set[int], asked: set[int]) -> None:
    cursor = Cursor(mark_delete=-1).delete(Ranges.of_offsets(acked))
    assert set(cursor.undeleted(Ranges.of_offsets(asked))) == asked - acked


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
def test_a_claim_is_all_or_nothing(
    acked: set[int], mine: set[int], others: set[int], wanted: set[int]
) -> None:
    mine -= acked
    others -= acked | mine
    cursor = Cursor(mark_delete=-1).delete(Ranges.of_offsets(acked))
    acks = [pending(MINE, *mine), pending(OTHER, *others)]
    conflicts = wanted & (acked | others)
    if conflicts:
        with pytest.raises(TransactionConflict) as refused:
            claim_individual(cursor, acks, MINE, Ranges.of_offsets(wanted))
        named = refused.value.data["conflicts"]
        assert isinstance(named, list)
        assert [conflict["offset"] for conflict in named] == sorted(conflicts)
        assert {conflict["offset"] for conflict in named if conflict["txn_id"]} == conflicts - acked
    else:
        new = claim_individual(cursor, acks, MINE, Ranges.of_offsets(wanted))
        assert set(new) == wanted - mine


def test_a_conflict_names_the_offset_and_its_holder() -> None:
    with pytest.raises(TransactionConflict) as refused:
        claim_individual(
            Cursor(mark_delete=-1), [pending(OTHER, 4, 5)], MINE, Ranges.of_offsets([3, 4])
        )
    assert refused.value.data["conflicts"] == [{"offset": 4, "txn_id": "0:2"}]
    assert "4" in refused.value.message
    assert "0:2" in refused.value.message


def test_a_conflict_with_an_acknowledged_message_names_no_holder() -> None:
    with pytest.raises(TransactionConflict) as refused:
        claim_individual(Cursor(mark_delete=9), [], MINE, Ranges.of_offsets([9]))
    assert refused.value.data["conflicts"] == [{"offset": 9, "txn_id": None}]


def test_held_is_what_all_transactions_hold() -> None:
    assert held([pending(MINE, 1, 2), pending(OTHER, 7)]) == Ranges.of_offsets([1, 2, 7])
    assert held([]) == Ranges()


class Messages:
    """The rules of semantics §6, message by message: DELETED, held by a transaction, or neither."""

    def __init__(self, size: int) -> None:
        self.deleted: set[int] = set()
        self.holder: dict[int, TxnID] = {}
        self.cumulative: dict[TxnID, set[int]] = {}
        self.size = size

    @property
    def mark_delete(self) -> int:
        return next(n for n in range(self.size + 1) if n not in self.deleted) - 1

    def claim(self, txn_id: TxnID, offsets: set[int]) -> bool:
        if any(n in self.deleted or self.holder.get(n, txn_id) != txn_id for n in offsets):
            return False
        self.holder |= dict.fromkeys(offsets, txn_id)
        return True

    def claim_until(self, txn_id: TxnID, until: int) -> bool:
        wanted = {n for n in range(until + 1) if n not in self.deleted}
        if until <= self.mark_delete or any(n > until for n in self.cumulative.get(txn_id, ())):
            return False
        if any(self.holder.get(n, txn_id) != txn_id for n in wanted):
            return False
        new = {n for n in wanted if n not in self.holder}
        self.cumulative[txn_id] = self.cumulative.get(txn_id, set()) | new
        self.holder |= dict.fromkeys(new, txn_id)
        return True

    def end(self, txn_id: TxnID, *, commit: bool) -> None:
        mine = {n for n, holder in self.holder.items() if holder == txn_id}
        self.holder = {n: holder for n, holder in self.holder.items() if holder != txn_id}
        self.cumulative.pop(txn_id, None)
        if commit:
            self.deleted |= mine


class Subject:
    """The same by the algebra, with the log that it leaves."""

    def __init__(self) -> None:
        self.cursor = Cursor(mark_delete=-1)
        self.pending: list[PendingAck] = []
        self.log: list[AckStep] = []

    def claim(self, txn_id: TxnID, ack_type: AckType, offsets: set[int]) -> bool:
        try:
            if ack_type is AckType.CUMULATIVE:
                new = claim_cumulative(self.cursor, self.pending, txn_id, max(offsets))
            else:
                new = claim_individual(
                    self.cursor, self.pending, txn_id, Ranges.of_offsets(offsets)
                )
        except TransactionConflict:
            return False
        if new:
            self.pending.append(PendingAck(txn_id=txn_id, ack_type=ack_type, ranges=new))
            self.step(txn_id, AckOp.ACK, ack_type, new)
        return True

    def end(self, txn_id: TxnID, *, commit: bool) -> None:
        for ack in [ack for ack in self.pending if ack.txn_id == txn_id]:
            self.step(txn_id, AckOp.COMMIT if commit else AckOp.ABORT, ack.ack_type, ack.ranges)
            if commit:
                self.cursor = self.cursor.delete(ack.ranges)
        self.pending = [ack for ack in self.pending if ack.txn_id != txn_id]

    def step(self, txn_id: TxnID, op: AckOp, ack_type: AckType, ranges: Ranges) -> None:
        self.log.append(AckStep(txn_id=txn_id, op=op, ack_type=ack_type, ranges=ranges))


SIZE = 12
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "claim_until", "plain", "plain_until", "commit", "abort"]),
        st.sampled_from([MINE, OTHER, TxnID(1, 0)]),
        st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=5),
    ),
    max_size=25,
)


@given(CALLS, st.integers(0, 30))
def test_individual_and_cumulative_acks_follow_the_rules_message_by_message(
    calls: list[tuple[str, TxnID, set[int]]], trimmed: int
) -> None:
    model, subject = Messages(SIZE), Subject()
    for call, txn_id, offsets in calls:
        until = max(offsets)
        if call == "claim":
            done = subject.claim(txn_id, AckType.INDIVIDUAL, offsets)
            assert done == model.claim(txn_id, offsets)
        elif call == "claim_until":
            done = subject.claim(txn_id, AckType.CUMULATIVE, offsets)
            assert done == model.claim_until(txn_id, until)
        elif call in ("plain", "plain_until"):
            wanted = offsets if call == "plain" else set(range(until + 1))
            free = Ranges.of_offsets(wanted) - held(subject.pending)
            subject.cursor = subject.cursor.delete(free)
            model.deleted |= {n for n in wanted if n not in model.holder}
        else:
            subject.end(txn_id, commit=call == "commit")
            model.end(txn_id, commit=call == "commit")
        assert deleted(subject.cursor) == model.deleted
        for txn in {*model.holder.values(), *(ack.txn_id for ack in subject.pending)}:
            mine = held(ack for ack in subject.pending if ack.txn_id == txn)
            assert set(mine) == {n for n, holder in model.holder.items() if holder == txn}
        # What lies behind mark-delete may be trimmed, any part of it, and nothing is lost.
        mark = subject.cursor.mark_delete
        log = [
            step
            for number, step in enumerate(subject.log)
            if (step.ranges.last or 0) > mark or number >= trimmed
        ]
        rebuilt = {(ack.txn_id, ack.ack_type): ack.ranges for ack in replay(log, mark)}
        stands: dict[tuple[TxnID, AckType], Ranges] = {}
        for ack in subject.pending:
            key = (ack.txn_id, ack.ack_type)
            stands[key] = stands.get(key, Ranges()) | ack.ranges
        assert rebuilt == stands


@pytest.mark.parametrize(
    ("until", "who"), [(3, "0:1"), (5, "0:1")], ids=["before its own claim", "still before it"]
)
def test_a_transaction_goes_only_forward(until: int, who: str) -> None:
    mine = PendingAck(txn_id=MINE, ack_type=AckType.CUMULATIVE, ranges=Ranges.run(0, 8))
    with pytest.raises(TransactionConflict) as refused:
        claim_cumulative(Cursor(mark_delete=-1), [mine], MINE, until)
    assert refused.value.data["conflicts"] == [{"offset": until, "txn_id": who}]
    assert claim_cumulative(Cursor(mark_delete=-1), [mine], MINE, 7) == Ranges()
    assert claim_cumulative(Cursor(mark_delete=-1), [mine], MINE, 9) == Ranges.run(8, 10)


def test_a_cumulative_claim_conflicts_with_any_other_wherever_it_stands() -> None:
    for upper in (3, 8, 20):
        other = PendingAck(txn_id=OTHER, ack_type=AckType.CUMULATIVE, ranges=Ranges.run(0, upper))
        with pytest.raises(TransactionConflict):
            claim_cumulative(Cursor(mark_delete=-1), [other], MINE, 7)


def test_a_cumulative_claim_behind_an_individual_one_of_the_same_offset_is_recorded() -> None:
    """reference/reliability.md, PA-S2."""
    mine = PendingAck(txn_id=MINE, ack_type=AckType.INDIVIDUAL, ranges=Ranges.run(4, 5))
    assert claim_cumulative(Cursor(mark_delete=-1), [mine], MINE, 4) == Ranges.run(0, 4)


@pytest.mark.parametrize("until", [0, 5])
def test_a_cumulative_claim_within_what_is_deleted_conflicts(until: int) -> None:
    with pytest.raises(TransactionConflict):
        claim_cumulative(Cursor(mark_delete=5), [], MINE, until)


def test_a_million_in_order_is_one_range() -> None:
    cursor = Cursor(mark_delete=-1)
    for first in range(0, 10**6, 1000):
        cursor = cursor.delete(Ranges.run(first, first + 1000))
    assert cursor == Cursor(mark_delete=10**6 - 1)

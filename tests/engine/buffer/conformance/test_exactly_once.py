"""A batch that is sent again is stored once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import Engine
from engine.model.errors import SequenceOutOfOrder
from engine.model.topic import BufferKind
from tests.engine.buffer.conformance.both_buffers import (
    COMMIT,
    T1,
    ended,
)
from tests.engine.support import (
    P0,
    abort,
    batch,
    commit,
    fetched,
    open_txn,
)


def test_a_batch_in_a_transaction_is_stored_once_and_its_repetition_told_where(
    engine: Engine, buffer: BufferKind
) -> None:
    txn_id = open_txn(engine)

    def produce(sequence_id: int, *payloads: str) -> tuple[int, int, int, bool]:
        answer = engine.produce(
            P0, batch(*payloads), txn_id=txn_id, producer_name="p", sequence_id=sequence_id
        )
        return answer.ledger_id, answer.first_offset, answer.last_offset, answer.duplicate

    first = produce(1, "a", "b")
    produce(5, "c")
    assert produce(1, "a", "b") == (*first[:3], True)
    assert produce(5, "c")[3]
    with pytest.raises(SequenceOutOfOrder):
        produce(3, "never")
    commit(engine, txn_id)
    assert fetched(engine) == ["a", "b", "c"]


def test_plain_batches_and_those_of_transactions_have_sequences_of_their_own(
    engine: Engine, buffer: BufferKind
) -> None:
    numbered = {"producer_name": "p", "sequence_id": 7}
    one, two = open_txn(engine), open_txn(engine)
    for txn_id in (None, one, two):
        for duplicate in (False, True):
            answer = engine.produce(P0, batch("x"), txn_id=txn_id, **numbered)
            assert answer.duplicate is duplicate
    commit(engine, one)
    abort(engine, two)
    assert fetched(engine) == ["x", "x"]


def test_the_sequence_ids_of_an_aborted_transaction_are_free_again(
    engine: Engine, buffer: BufferKind
) -> None:
    for action in (abort, commit):
        txn_id = open_txn(engine)
        for number in range(3):
            answer = engine.produce(
                P0, batch(f"{number}"), txn_id=txn_id, producer_name="p", sequence_id=number
            )
            assert not answer.duplicate
        action(engine, txn_id)
    assert fetched(engine) == ["0", "1", "2"]


def test_the_same_batch_sent_by_many_at_once_is_stored_once(
    engine: Engine, buffer: BufferKind
) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(
                lambda _: engine.log.append(
                    P0, batch("x"), txn_id=T1, producer_name="p", sequence_id=1
                ),
                range(8),
            )
        )
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 7
    assert len({(answer.ledger_id, answer.first_offset) for answer in answers}) == 1
    ended(engine, (T1, COMMIT))
    assert fetched(engine) == ["x"]

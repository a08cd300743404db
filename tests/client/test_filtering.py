"""The client's own filter: the order of its steps (semantics §4.2; reference/kafka.md §2.4)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from txnconsole.client.answers import AbortedTransaction, Fetched, Message, TransactionMarker
from txnconsole.client.filtering import FetchedBatch, committed, committed_messages

#: seeds/004, "Example": data log by offset, with P's status letters in Latin.
EXAMPLE = ["P1", "P1", "P2", "P1:C", "P2", "P2:A", "P1", "P2", "P1", "P1:A", "P2:C"]


def log(*cells: str, first: int = 0) -> list[FetchedBatch]:
    """Batches of one offset each: ``P1`` data, ``P1:A`` abort, ``P1:C`` commit, ``-`` plain."""
    kinds = {"": "DATA", "A": "TXN_ABORT", "C": "TXN_COMMIT"}
    found = []
    for offset, cell in enumerate(cells, first):
        txn_id, _, kind = cell.partition(":")
        found.append(batch(offset, offset, None if txn_id == "-" else txn_id, kinds[kind]))
    return found


def batch(first: int, last: int, txn_id: str | None, kind: str = "DATA") -> FetchedBatch:
    return FetchedBatch(first_offset=first, last_offset=last, txn_id=txn_id, kind=kind)


def offsets(batches: list[FetchedBatch], *aborted: tuple[int, str]) -> list[int]:
    return [kept.first_offset for kept in committed(batches, aborted)]


def test_the_seeds_example_delivers_7_from_5_to_8() -> None:
    assert offsets(log(*EXAMPLE[5:9], first=5), (2, "P2"), (6, "P1")) == [7]
    assert offsets(log(*EXAMPLE[:5]), (2, "P2")) == [0, 1]
    assert offsets(log(*EXAMPLE), (2, "P2"), (6, "P1")) == [0, 1, 7]


def test_an_abort_marker_without_its_data_frees_what_comes_after_it() -> None:
    cells = log("P1:A", "P1", "P1", "P1", "P1:C", first=5)
    assert offsets(cells, (0, "P1")) == [6, 7, 8]


def test_one_transactions_abort_does_not_hide_another_that_began_earlier() -> None:
    """reference/kafka.md §4, scenario 56: the heap's head is of another transaction."""
    cells = [
        *(
            batch(3, 4, "3"),
            batch(15, 17, "2"),
            batch(22, 23, "1"),
            batch(28, 28, "2", "TXN_ABORT"),
        ),
        *(batch(30, 32, "3"), batch(35, 35, "3", "TXN_COMMIT"), batch(39, 40, "1")),
    ]
    assert offsets(cells, (6, "2"), (0, "1")) == [3, 30]


def test_the_same_transaction_twice_in_a_range_is_dropped_twice() -> None:
    cells = log("P1", "P1:A", "P1", "P1:C", "P1", "P1:A")
    assert offsets(cells, (0, "P1"), (4, "P1")) == [2]


def test_messages_outside_transactions_are_always_delivered() -> None:
    assert offsets(log("-", "P1", "-", "P1:A", "-"), (1, "P1")) == [0, 2, 4]


def test_the_order_in_which_the_list_comes_does_not_matter() -> None:
    for aborted in ([(2, "P2"), (6, "P1")], [(6, "P1"), (2, "P2")]):
        assert offsets(log(*EXAMPLE), *aborted) == [0, 1, 7]


def test_an_aborted_batch_that_the_window_cuts_is_dropped_in_both_parts() -> None:
    assert offsets([batch(0, 1, "P1")], (0, "P1")) == []
    assert offsets([batch(2, 3, "P1"), batch(4, 4, "P1", "TXN_ABORT")], (0, "P1")) == []


@pytest.mark.parametrize("listed", [True, False])
def test_an_answer_is_filtered_by_its_messages_and_markers(listed: bool) -> None:
    aborted = [AbortedTransaction(txn_id="0:1", first_offset=0)] if listed else None
    fetched = Fetched(
        messages=[_message(0, 0, "0:1"), _message(0, 1, "0:1"), _message(3, 0, "0:1")],
        markers=[TransactionMarker(offset=2, txn_id="0:1", kind="TXN_ABORT")],
        aborted_transactions=aborted,
        stable_position=4,
        last_offset=4,
        next_offset=4,
    )
    kept = [message.offset for message in committed_messages(fetched)]
    assert kept == ([3] if listed else [0, 1, 3])


def _message(entry_id: int, index: int, txn_id: str | None) -> Message:
    return Message(
        message_id=f"7:{entry_id}:0:{index}",
        offset=entry_id + index,
        partition=0,
        payload=b"",
        publish_time=datetime(2026, 1, 1, tzinfo=UTC),
        txn_id=txn_id,
    )

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.client import calls
from txnconsole.client.batching import Batch, Batcher, BatchLimits, estimated_size
from txnconsole.client.calls import NewMessage

SLOTS = st.tuples(st.integers(0, 3), st.none() | st.sampled_from(["0:1", "0:2"]))
ASCII = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=20)
MESSAGES = st.builds(
    NewMessage,
    payload=st.binary(max_size=60),
    key=st.none() | ASCII,
    properties=st.dictionaries(ASCII, ASCII, max_size=3),
)
LIMITS = st.builds(BatchLimits, messages=st.integers(1, 5), bytes=st.integers(1, 600))


@given(LIMITS, st.lists(st.tuples(SLOTS, MESSAGES)))
def test_every_message_is_in_one_batch_of_its_own_slot_in_order(
    limits: BatchLimits, sent: list[tuple[tuple[int, str | None], NewMessage]]
) -> None:
    batches = _batches(limits, sent)
    for slot in {slot for slot, _ in sent}:
        stored = [
            message
            for batch in batches
            if (batch.partition, batch.txn_id) == slot
            for message in batch.messages
        ]
        assert stored == [message for candidate, message in sent if candidate == slot]


@given(LIMITS, st.lists(st.tuples(SLOTS, MESSAGES)))
def test_a_batch_keeps_its_limits_unless_one_message_alone_is_larger(
    limits: BatchLimits, sent: list[tuple[tuple[int, str | None], NewMessage]]
) -> None:
    for batch in _batches(limits, sent):
        assert 1 <= len(batch.messages) <= limits.messages
        size = sum(estimated_size(message) for message in batch.messages)
        assert size <= limits.bytes or len(batch.messages) == 1


@given(LIMITS, st.lists(st.tuples(SLOTS, MESSAGES)), st.integers(0, 1000))
def test_sequence_ids_rise_by_one_from_the_first(
    limits: BatchLimits, sent: list[tuple[tuple[int, str | None], NewMessage]], first: int
) -> None:
    batches = _batches(limits, sent, first=first)
    assert [batch.sequence_id for batch in batches] == list(range(first, first + len(batches)))


@given(st.lists(MESSAGES, min_size=1, max_size=20))
def test_the_estimate_is_not_below_the_encoded_body(messages: list[NewMessage]) -> None:
    call = calls.produce("a/b/c", 0, messages, txn_id=None, producer_name=None, sequence_id=None)
    envelope = len(
        msgspec.msgpack.encode(msgspec.msgpack.decode(call.body or b"") | {"messages": []})
    )
    assert len(call.body or b"") - envelope <= sum(map(estimated_size, messages)) + 2


def test_a_discarded_transaction_leaves_the_others() -> None:
    batcher = Batcher(BatchLimits())
    for txn_id in (None, "0:1", "0:2"):
        batcher.add(0, txn_id, NewMessage(payload=b"x"))
    batcher.discard("0:1")
    assert [batch.txn_id for batch in batcher.seal(lambda _: True)] == [None, "0:2"]


def _batches(
    limits: BatchLimits,
    sent: list[tuple[tuple[int, str | None], NewMessage]],
    *,
    first: int = 0,
) -> list[Batch]:
    batcher = Batcher(limits, first_sequence_id=first)
    batches = [
        batch
        for (partition, txn_id), message in sent
        for batch in batcher.add(partition, txn_id, message)
    ]
    return batches + batcher.seal(lambda _: True)

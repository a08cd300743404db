"""Dropping aborted messages from a fetch, as a Kafka consumer does (semantics §4.2). No IO."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from txnconsole.client.answers import Fetched, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatch:
    """The part of a batch that was fetched, or a marker (``kind`` TXN_COMMIT or TXN_ABORT).

    ``txn_id`` is None outside transactions.
    """

    first_offset: int
    last_offset: int
    txn_id: str | None
    kind: str = "DATA"
    messages: Sequence[Message] = ()


def committed(
    batches: Iterable[FetchedBatch], aborted: Iterable[tuple[int, str]]
) -> Iterator[FetchedBatch]:
    """Yield the data batches of one fetch that do not belong to aborted transactions.

    ``batches`` come in the order of their offsets; ``aborted`` are the fetch's aborted
    transactions, each as (first offset, transaction), in any order.

    The order of the two steps matters. First, all aborted transactions that begin at or below the
    batch's last offset are taken from the heap; only then is the batch looked at, which may be the
    marker of one of them. Otherwise, in a fetch that begins at an abort marker, what the same
    producer commits next would be dropped as aborted (seeds/004, fetch 2).
    """
    ahead = list(aborted)
    heapq.heapify(ahead)
    dropped: set[str] = set()
    for batch in batches:
        while ahead and ahead[0][0] <= batch.last_offset:
            dropped.add(heapq.heappop(ahead)[1])
        if batch.kind == "DATA":
            if batch.txn_id not in dropped:
                yield batch
        elif batch.kind == "TXN_ABORT" and batch.txn_id is not None:
            dropped.discard(batch.txn_id)


def committed_messages(fetched: Fetched) -> list[Message]:
    """The committed messages of the answer to a fetch with ``filter=client``."""
    batches = [
        FetchedBatch(
            first_offset=marker.offset,
            last_offset=marker.offset,
            txn_id=marker.txn_id,
            kind=marker.kind,
        )
        for marker in fetched.markers
    ]
    for _, group in groupby(fetched.messages, key=_entry):
        messages = list(group)
        batches.append(
            FetchedBatch(
                first_offset=messages[0].offset,
                last_offset=messages[-1].offset,
                txn_id=messages[0].txn_id,
                messages=messages,
            )
        )
    batches.sort(key=lambda batch: batch.first_offset)
    aborted = [(each.first_offset, each.txn_id) for each in fetched.aborted_transactions or ()]
    return [message for batch in committed(batches, aborted) for message in batch.messages]


def _entry(message: Message) -> str:
    """Identifies the batch that a message is in: the message's id without its index."""
    return message.message_id.rpartition(":")[0]

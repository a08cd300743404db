"""What holds partitions back (reference/kafka.md §8)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.coordinator.coordinator import Coordinator
from engine.inspect.reading import Reading
from engine.log.rows import ongoing_txn, partition_status
from engine.model.partition import OngoingTxn, PartitionStatus
from engine.model.topic_name import PartitionName
from engine.model.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """A transaction that holds the stable position back, or would after others have ended; and what
    ending it, and those before it, would free.

    Attributes:
        transaction: None when its coordinator does not know it: an orphan.
        stable_position_after: in the log as it is now; the markers of the ends come after it.
        messages_freed: how many messages become readable if all of them commit. When not ``exact``
            there are at least so many, because the count is bounded.
    """

    ongoing: OngoingTxn
    transaction: Transaction | None
    stable_position_after: int
    messages_freed: int
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Partitions that an ongoing transaction holds back, and brokers that did not answer."""

    partitions: tuple[PartitionStatus, ...]
    unavailable: dict[str, str]


def blockers(
    reading: Reading, coordinator: Coordinator, partition: PartitionName, limit: int, above: int
) -> tuple[Blocker, ...]:
    """The first ``limit`` ongoing transactions that begin above an offset, in the order of their
    first offsets: the first one holds the stable position, after its end the second does, and so
    on. None in a sidecar-buffered partition, where they hold back nobody."""
    ongoing = ("ongoing", {"above": above, "limit": limit + 1})
    with reading.view(partition, ongoing) as view:
        if view.head.first_ongoing_offset is None:
            return ()
        stack = [ongoing_txn(row) for row in view.given[0]]
        if not stack:  # What was above has ended since the page before.
            return ()
        after = [each.first_offset - 1 for each in stack[1:]]
        if len(stack) <= limit:
            after.append(view.last_offset)
        freed = view.count([position + 1 for position in after])
    stack = stack[: len(after)]
    known = coordinator.get_many(each.txn_id for each in stack)
    return tuple(
        Blocker(
            ongoing=each,
            transaction=known.get(each.txn_id),
            stable_position_after=position,
            messages_freed=count.messages,
            exact=count.exact,
        )
        for each, position, count in zip(stack, after, freed, strict=True)
    )


def held_back(reading: Reading, limit: int) -> HeldBack:
    """The ``limit`` partitions with the most hidden offsets, over all brokers."""
    rows, unavailable = reading.on_each("held_back", limit=limit)
    found = [
        partition_status(row, database.name) for database, rows in rows.items() for row in rows
    ]
    found.sort(key=lambda status: status.hidden_messages, reverse=True)
    return HeldBack(partitions=tuple(found[:limit]), unavailable=unavailable)

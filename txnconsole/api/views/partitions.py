"""Partitions: positions, index, blockers (design/api.md, Topics, partitions, messages)."""

from __future__ import annotations

from engine.model.page import decode_number, encode_cursor
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import Endpoint, PartitionEndpoint, TopicEndpoint
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.api.paging import page_of
from txnconsole.api.structs.fields import PageQuery, UnavailableBroker, UnavailablePartition
from txnconsole.api.structs.partitions import (
    AbortedIndex,
    Blocker,
    Blockers,
    HeldBackPartition,
    HeldBackPartitions,
    HeldBackQuery,
    IndexEntry,
    IndexQuery,
    Partition,
    PartitionSummaries,
    PartitionSummary,
)
from txnconsole.enginedb.wiring import engine

#: How many partitions are read to be ordered by time: those with the most hidden offsets.
_HELD_BACK = 501


class Partitions(TopicEndpoint):
    @operation(
        "listPartitions",
        Permission.TOPIC_READ,
        Shape(query=PageQuery, answer=PartitionSummaries),
        summary="List a topic's partitions",
    )
    def get(self, call: Call[None, PageQuery]) -> PartitionSummaries:
        """The positions of each. A partition whose broker does not answer is among
        `unavailable`."""
        first = 0 if call.query.cursor is None else decode_number(call.query.cursor)
        upto = first + call.query.limit
        statuses, failures = engine().log.statuses(self.topic, range(first, upto))
        partitions = engine().topics.get(self.topic).settings.partitions
        return PartitionSummaries(
            items=[PartitionSummary.of(each) for each in statuses],
            unavailable=[
                UnavailablePartition(partition=str(partition), detail=error.message)
                for partition, error in failures.items()
            ],
            next_cursor=encode_cursor(upto) if upto < partitions else None,
        )


class OnePartition(PartitionEndpoint):
    @operation(
        "getPartition",
        Permission.TOPIC_READ,
        Shape(answer=Partition),
        summary="Show a partition",
    )
    def get(self, call: Call[None, NoQuery]) -> Partition:
        """Its positions, segments and newest snapshot, and the transaction that holds it back."""
        status = engine().log.status(self.partition)
        blocking = None
        if status.blocker is not None:
            txn_id = status.blocker.txn_id
            blocking = engine().coordinator.get_many([txn_id]).get(txn_id)
        return Partition.whole(
            status, segments=engine().log.segments(self.partition), blocking=blocking
        )


class HeldBackPartitionsOfAll(Endpoint):
    @operation(
        "listHeldBackPartitions",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=HeldBackQuery, answer=HeldBackPartitions),
        summary="List the partitions that are held back",
    )
    def get(self, call: Call[None, HeldBackQuery]) -> HeldBackPartitions:
        """Every partition whose readers wait, and the transaction that they wait for. What is held
        back most comes first, or, of the 500 with the most hidden offsets, what is held back
        longest."""
        query = call.query
        by_time = query.order == "longest"
        found = engine().inspect.held_back(_HELD_BACK if by_time else query.limit + 1)
        held = [(each, each.blocker) for each in found.partitions if each.blocker is not None]
        if by_time:
            held.sort(key=lambda one: one[0].held_for, reverse=True)
        known = engine().coordinator.get_many(ongoing.txn_id for _, ongoing in held[: query.limit])
        return HeldBackPartitions(
            items=[
                HeldBackPartition.of(status, ongoing, known.get(ongoing.txn_id))
                for status, ongoing in held[: query.limit]
            ],
            complete=len(held) <= query.limit,
            unavailable=[
                UnavailableBroker(broker=broker, detail=detail)
                for broker, detail in found.unavailable.items()
            ],
        )


class IndexOfPartition(PartitionEndpoint):
    @operation(
        "getAbortedIndex",
        Permission.TOPIC_READ,
        Shape(query=IndexQuery, answer=AbortedIndex),
        summary="Show the aborted-transaction index",
    )
    def get(self, call: Call[None, IndexQuery]) -> AbortedIndex:
        """Its rows in the order of their markers, of one segment or of all."""
        query = call.query
        page = engine().log.aborted_index(
            self.partition, ledger_id=query.segment, limit=query.limit, cursor=query.cursor
        )
        return AbortedIndex(
            items=[IndexEntry.of(row) for row in page.items], next_cursor=page.next_cursor
        )


class BlockersOfPartition(PartitionEndpoint):
    @operation(
        "getBlockers",
        Permission.TOPIC_READ,
        Shape(query=PageQuery, answer=Blockers),
        summary="Show what holds the stable position",
    )
    def get(self, call: Call[None, PageQuery]) -> Blockers:
        """The ongoing transactions in the order in which they hold the stable position back, each
        with the number of messages that its end, together with the ends before it, would free."""
        cursor, limit = call.query.cursor, call.query.limit
        found = engine().inspect.blockers(
            self.partition, limit + 1, above=-1 if cursor is None else decode_number(cursor)
        )
        page, next_cursor = page_of(found, limit, lambda each: each.ongoing.first_offset)
        return Blockers(
            items=[Blocker.of(each) for each in page],
            next_cursor=next_cursor,
        )

"""Partitions: positions, index, blockers (design/api.md, Topics, partitions, messages)."""

from __future__ import annotations

from engine.model.page import decode_number, encode_cursor
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import PartitionEndpoint, TopicEndpoint
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.api.paging import page_of
from txnconsole.api.structs.fields import PageQuery, UnavailablePartition
from txnconsole.api.structs.partitions import (
    AbortedIndex,
    Blocker,
    Blockers,
    IndexEntry,
    IndexQuery,
    Partition,
    PartitionSummaries,
    PartitionSummary,
)
from txnconsole.enginedb.wiring import engine


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
        statuses, failures = engine().log.reachable_statuses(self.topic, range(first, upto))
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

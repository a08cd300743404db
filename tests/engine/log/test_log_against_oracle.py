"""A real partition's index, positions and fetches against a look at its entries alone.

Random histories with what tells a right engine from an almost right one: ids that come back after
their marker, orphans that the low water mark ends, transactions without data, batches of several
messages, segments of several sizes, a cut end; ends one by one and many in one command.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from random import Random

import pytest

from engine import Engine
from engine.model.errors import InvalidTxnStatus
from engine.model.message import Isolation
from engine.model.partition import Fetched
from engine.model.read_position import ReadPosition
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import EndCommand
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome, TxnAction
from tests.engine.log.replayed_log import Entry, IndexRow, ReplayedLog, overlap, scan
from tests.engine.support import (
    batch,
    end_txns,
    indexed_txns,
    pass_over_orphans,
    sql,
)
from txnconsole.client.filtering import FetchedBatch, committed

TXNS = [TxnID(tc_id, sequence) for tc_id in (0, 1) for sequence in range(4)]


class RandomPartition:
    """A partition that a seed's steps are applied to; ``together`` ends at once what it can."""

    def __init__(self, engine: Engine, seed: int, *, together: bool) -> None:
        self.engine = engine
        self.random = Random(seed)  # noqa: S311
        self.together = together
        name = TopicName("random", "logs", f"s{seed}-{'many' if together else 'one'}")
        self.name = PartitionName(name, 0)
        size = self.random.choice((3, 7, 1000))
        engine.topics.create(name, TopicSettings(segment_max_messages=size))
        self.location = engine.log.locate(self.name)
        self.reader = ReadPosition(offset=0)
        self.read: list[int] = []

    def run(self, steps: int, *, cut: bool) -> None:
        for _ in range(steps):
            chance = self.random.random()
            txn_id = self.random.choice(TXNS)
            if chance < 0.6:
                self.append(txn_id if chance > 0.15 else None, self.random.randint(1, 3))
            elif chance < 0.88:
                self.end(self.random.sample(TXNS, self.random.randint(1, 4)))
            elif chance < 0.94:
                self.forget(txn_id)
            else:
                self.raise_low_water_mark(txn_id)
            self.read_on(self.random.randint(1, 4))
        if cut:
            self.truncate(self.random.random())

    def append(self, txn_id: TxnID | None, messages: int) -> None:
        try:
            self.engine.log.append(self.name, batch(*"x" * messages), txn_id=txn_id)
        except InvalidTxnStatus:
            assert txn_id is not None

    def end(self, txn_ids: Sequence[TxnID]) -> None:
        commands = [
            EndCommand(txn_id=txn_id, action=self.random.choice(list(TxnAction)))
            for txn_id in txn_ids
        ]
        self._end(*([commands] if self.together else [[command] for command in commands]))

    def raise_low_water_mark(self, txn_id: TxnID) -> None:
        """Ends what is ongoing up to a sequence, a chain of orphans."""
        pass_over_orphans(self.engine, {txn_id.tc_id: txn_id.sequence}, self.location)
        # Or nothing could be appended by these few ids from now on.
        sql(self.location.database, "DELETE FROM broker.low_water_mark")

    def forget(self, txn_id: TxnID) -> None:
        """Let an id that has ended here append again, as an orphan of it would."""
        sql(
            self.location.database,
            "DELETE FROM broker.ended_txn WHERE (partition_id, tc_id, sequence) = (%s, %s, %s)",
            self.location.partition_id,
            txn_id.tc_id,
            txn_id.sequence,
        )

    def truncate(self, share: float) -> None:
        database, partition_id = self.location.database, self.location.partition_id
        end = self.engine.log.status(self.name).last_offset + 1
        online = "UPDATE broker.partition SET online = %s WHERE partition_id = %s"
        sql(database, online, False, partition_id)
        [row] = sql(
            database,
            "SELECT * FROM broker.truncate(%s, %s, 1000000, ARRAY("
            "SELECT tc_id || ':' || sequence FROM broker.ongoing_txn))",
            partition_id,
            int(end * share),
        )
        assert row.result == "truncated"
        sql(database, online, True, partition_id)

    def read_on(self, max_messages: int) -> bool:
        """One more fetch in committed order; answers whether it got further."""
        answer = self.engine.log.fetch_in_committed_order(self.name, self.reader, max_messages)
        assert len(answer.messages) <= max_messages
        assert answer.next_cursor is not None
        self.read += [message.offset for message in answer.messages]
        before, self.reader = self.reader, ReadPosition.decode(answer.next_cursor, self.name)
        return bool(answer.messages) or self.reader.offset > before.offset

    def replayed(self) -> ReplayedLog:
        rows = sql(
            self.location.database,
            "SELECT first_offset, last_offset, kind::text, tc_id || ':' || sequence, ledger_id"
            " FROM broker.entry WHERE partition_id = %s ORDER BY last_offset",
            self.location.partition_id,
        )
        return ReplayedLog([Entry(*row) for row in rows])

    def _end(self, *batches: Sequence[EndCommand]) -> None:
        for commands in batches:
            end_txns(self.location, *((command.txn_id, command.action) for command in commands))


def own_batches(answer: Fetched) -> list[FetchedBatch]:
    """Messages and markers of an answer, each as a batch of one."""
    cells = [(each.offset, each.txn_id, each.kind) for each in answer.messages]
    cells += [(each.offset, each.txn_id, each.kind) for each in answer.markers or ()]
    return [
        FetchedBatch(
            first_offset=offset,
            last_offset=offset,
            txn_id=None if txn_id is None else str(txn_id),
            kind=kind,
        )
        for offset, txn_id, kind in sorted(cells, key=itemgetter(0))
    ]


def compare(partition: RandomPartition, log: ReplayedLog, fetches: int) -> None:
    """Compare what stands in the index, the positions, and ``fetches`` fetches of each kind."""
    engine, name = partition.engine, partition.name
    indexed = indexed_txns(engine, name, 0, log.end + 1)
    assert [
        IndexRow(
            row.ledger_id,
            str(row.txn_id),
            row.first_offset,
            row.last_offset,
            row.last_stable_offset,
            row.outcome is Outcome.ABORTED,
        )
        for row in indexed
    ] == log.index
    status = engine.log.status(name)
    assert (status.stable_position, status.last_offset) == (log.stable_position, log.end - 1)

    for _ in range(fetches if log.end else 0):
        lower = partition.random.randrange(log.end)
        size = partition.random.randint(1, log.end)
        upper = max(lower, min(lower + size, log.stable_position + 1))
        inside = [offset for offset in log.committed_offsets if lower <= offset < upper]
        answer = engine.log.fetch(name, lower, size)
        assert [message.offset for message in answer.messages] == inside
        listed = [(txn.first_offset, str(txn.txn_id)) for txn in answer.aborted_transactions or ()]
        assert listed == overlap(log.index, lower, upper) if upper > lower else not listed
        if upper > lower:
            assert listed == scan(log.index, log.ledger_at(lower), lower, upper)

        kept = engine.log.fetch(name, lower, size, keep_aborted=True)
        batches = own_batches(kept)
        assert [each.first_offset for each in batches] == list(range(lower, upper))
        assert [each.first_offset for each in committed(batches, listed)] == inside

        everything = engine.log.fetch(name, lower, size, isolation=Isolation.READ_UNCOMMITTED)
        assert [message.offset for message in everything.messages] == [
            offset
            for entry in log.entries
            if entry.kind == "D"
            for offset in range(entry.first, entry.last + 1)
            if lower <= offset < lower + size
        ]


def compare_histories(engine: Engine, seeds: range, steps: int, fetches: int) -> None:
    for seed in seeds:
        cut = seed % 3 == 0
        one, many = (RandomPartition(engine, seed, together=together) for together in (False, True))
        one.run(steps, cut=cut)
        many.run(steps, cut=cut)
        logs = one.replayed(), many.replayed()
        assert [(e.first, e.kind, e.txn) for e in logs[0].entries] == [
            (e.first, e.kind, e.txn) for e in logs[1].entries
        ]
        for partition, log in zip((one, many), logs, strict=True):
            compare(partition, log, fetches)
            if cut:
                partition.reader, partition.read = ReadPosition(offset=0), []
            while partition.read_on(3):
                pass
            assert partition.read == log.committed_order


def test_index_positions_and_fetches_of_random_logs_are_what_their_entries_say(
    engine: Engine,
) -> None:
    compare_histories(engine, range(2), steps=25, fetches=10)


@pytest.mark.deep
def test_many_random_logs_and_fetches_are_what_their_entries_say(engine: Engine) -> None:
    compare_histories(engine, range(2, 14), steps=50, fetches=40)

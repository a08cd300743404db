"""Rules: operators, retention, snapshots and crashes."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from tests.engine.support import archive, lose_derived_state, sql
from tests.model import looking
from tests.model.transactions import Transactions
from tests.model.world import PARTITION, PARTITIONS, SIDECARS, TXN, UNKNOWN, drawn


class Operations(Transactions):
    """Interfering."""

    @rule(partition=PARTITION)
    def take_offline(self, partition: PartitionName) -> None:
        def expected() -> None:
            self.reference.partition(partition).online = False

        self.agree(
            "take_offline",
            lambda: self.engine.partitions.take_offline(partition, reason="a test"),
            expected,
        )

    @rule(partition=PARTITION, offset=st.integers(0, 7), online=st.booleans())
    def truncate(self, partition: PartitionName, offset: int, online: bool) -> None:
        """Cut an offline partition's log, and bring it online again or not yet."""
        self.take_offline(partition)

        def real() -> tuple[int, int, set[TxnID]]:
            done = self.engine.partitions.truncate(partition, offset)
            return done.next_offset, done.entries, {*done.reopened}

        self.equal("truncate", real, lambda: self.reference.truncate(partition, offset))
        if online:
            self.bring_online(partition)

    @precondition(lambda self: self.offline)
    @rule(partition=drawn(lambda machine: machine.offline or PARTITIONS))
    def bring_online(self, partition: PartitionName) -> None:
        self.equal(
            "bring_online",
            lambda: {*self.engine.partitions.bring_online(partition)},
            lambda: self.reference.bring_online(partition),
        )

    @rule(partition=PARTITION, txn_id=TXN | st.sampled_from(UNKNOWN))
    def force_abort(self, partition: PartitionName, txn_id: TxnID) -> None:
        found = self.agree(
            "force_abort",
            lambda: self.engine.partitions.force_abort(partition, txn_id),
            lambda: self.reference.force_abort(partition, txn_id),
        )
        if found is not None and partition.topic not in SIDECARS:
            looking.same(*found, "marker of the forced abort")

    @rule(partition=PARTITION, oldest=st.integers(0, 3))
    def retain(self, partition: PartitionName, oldest: int) -> None:
        """Let the oldest sealed segments of a partition pass their retention; then sweep."""
        if partition not in self.partitions:
            return
        location = self.engine.log.locate(partition)
        sql(
            location.database,
            "UPDATE broker.segment SET created_at = '2000-01-01' WHERE partition_id = %s",
            location.partition_id,
        )
        sql(
            location.database,
            "UPDATE broker.segment SET sealed_at = '2000-01-01' WHERE ledger_id IN ("
            " SELECT ledger_id FROM broker.segment WHERE partition_id = %s"
            " AND sealed_at IS NOT NULL ORDER BY first_offset LIMIT %s)",
            location.partition_id,
            oldest,
        )
        model = self.reference.partition(partition)
        for segment in model.segments[:-1][:oldest]:
            segment.aged = True
        model.seal()
        slowest = self._slowest()
        self.engine.apply_retention()
        sql(
            location.database,
            "UPDATE broker.segment SET created_at = clock_timestamp() WHERE sealed_at IS NULL",
        )
        for name in self.partitions:
            one = self.reference.partition(name)
            if one.online:
                one.retain(slowest[name])

    @rule(partition=PARTITION, corrupt=st.booleans())
    def snapshot(self, partition: PartitionName, corrupt: bool) -> None:
        """Nothing changes, not even when the snapshot turns out to be unreadable."""
        if partition not in self.partitions:
            return
        self.engine.partitions.snapshot(partition)
        if corrupt:
            location = self.engine.log.locate(partition)
            sql(
                location.database,
                "UPDATE broker.entry e SET body = '\\x00' FROM broker.snapshot s"
                " WHERE s.partition_id = %s AND e.partition_id = s.system_partition_id"
                " AND e.last_offset = s.system_offset AND s.position ="
                " (SELECT max(position) FROM broker.snapshot WHERE partition_id = %s)",
                location.partition_id,
                location.partition_id,
            )

    @rule(partition=PARTITION)
    def recover(self, partition: PartitionName) -> None:
        """Nothing changes: snapshot and log together are the live state (§8, 7)."""
        self.agree(
            "recover",
            lambda: self.engine.partitions.recover(partition),
            lambda: self.reference.partition(partition),
        )

    @rule(finalize_first=st.booleans())
    def crash(self, finalize_first: bool) -> None:
        """What is derived is gone; the first who comes rebuilds it."""
        lose_derived_state(self.engine)
        self.reference.crash()
        if finalize_first:
            self.finalize(0, 1000, ())

    @rule()
    def go_elsewhere(self) -> None:
        """Another process goes on: what it remembers is of before. But it asks for leases anew, as
        after a third of one."""
        self.engine, self.elsewhere = self.elsewhere, self.engine
        self.engine._delivery._leases._remembered.clear()

    @rule()
    def lose_connections(self) -> None:
        """All connections end, as when every database is started again, and others are made. What
        has been answered stays, whatever was remembered with the connections."""
        for engine in (self.engine, self.elsewhere):
            for database in (engine.database, *engine._brokers):
                database._connections._pool_cache.dismiss()
                pool = database._connections.pool
                idle = pool.get_stats().get("pool_available", 0)
                for connection in [pool.getconn() for _ in range(idle)]:
                    connection.close()
                    pool.putconn(connection)

    @rule()
    def scale(self) -> None:
        """One more coordinator, which every process uses within a second."""
        count = self.newest + 1
        self.equal("scale", lambda: self.engine.coordinator.scale(count + 1), lambda: count)
        self.reference.coordinators.issued[count] = 0
        self.elsewhere._coordinator_count._known_until = 0

    @rule()
    def archive(self) -> None:
        """Of what has ended, the outcome and the owner are left (§2)."""
        archive(self.engine)
        self.reference.coordinators.archive()

    @rule()
    def snapshot_all(self) -> None:
        """As the workers do."""
        self.engine.take_snapshots()

    def _slowest(self) -> dict[PartitionName, int]:
        """The mark-delete position of each partition's slowest subscription, as the engine says;
        it has been compared before."""
        slowest = dict.fromkeys(self.partitions, 2**63)
        for name in self.subscriptions:
            for cursor in self.engine.subscriptions.describe(name).partitions:
                key = PartitionName(name.topic, cursor.partition)
                slowest[key] = min(slowest[key], cursor.mark_delete_offset)
        return slowest

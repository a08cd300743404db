"""What many tests of the engine say, in a few words."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import msgspec

from engine import Engine
from engine.coordinator.archive import Archive
from engine.log import questions
from engine.log.brokers import FILES, Location
from engine.model import dispatch
from engine.model.message import MessageID, NewMessage, StoredMessage
from engine.model.partition import IndexedTxn, PartitionStatus
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import Topic, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.database import Database
from engine.postgres.session import Session

TOPIC = TopicName("public", "default", "flights")
P0 = PartitionName(TOPIC, 0)
P1 = PartitionName(TOPIC, 1)
SUBSCRIPTION = SubscriptionName(TOPIC, "monitor")


def another(engine: Engine) -> Engine:
    """Another process's."""
    return Engine(
        engine._urls["coordinator"],
        {name: url for name, url in engine._urls.items() if name != "coordinator"},
        engine.settings,
    )


def batch(*payloads: str) -> list[NewMessage]:
    return [NewMessage(payload=payload.encode()) for payload in payloads]


def noise(seed: int, size: int) -> bytes:
    """Bytes that do not shrink, the same in every run."""
    return hashlib.shake_128(seed.to_bytes(8)).digest(size)


def make_topic(engine: Engine, partitions: int = 1, **settings: Any) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=partitions, **settings))


def subscribe(
    engine: Engine, name: SubscriptionName = SUBSCRIPTION, **settings: Any
) -> SubscriptionName:
    engine.subscriptions.create(name, SubscriptionSettings(**settings))
    return name


def open_txn(engine: Engine, tc_id: int | None = 0, owner: str = "alice") -> TxnID:
    return engine.coordinator.open(owner=owner, tc_id=tc_id).txn_id


def end_txns(
    location: Location,
    *commands: tuple[TxnID, TxnAction],
    marks: Mapping[int, int] | None = None,
    registered: bool = True,
) -> list[EndResult]:
    """EndTxnOnPartition as a coordinator sends it; not ``registered``: of one that lists no such
    participant."""
    lows = marks or {}
    rows = sql(
        location.database,
        "SELECT * FROM broker.end_txns(%s, %s, %s, %s, %s, %s, %s)",
        location.partition_id,
        [txn_id.tc_id for txn_id, _ in commands],
        [txn_id.sequence for txn_id, _ in commands],
        [action is TxnAction.ABORT for _, action in commands],
        registered,
        list(lows),
        list(lows.values()),
    )
    return [
        EndResult(
            txn_id=TxnID(row.tc_id, row.sequence),
            error=row.error,
            first_offset=row.first_offset,
            last_offset=row.last_offset,
            messages=row.messages,
            marker_offset=row.marker_offset,
        )
        for row in rows
        if row.error != "orphans"
    ]


def pass_over_orphans(engine: Engine, marks: Mapping[int, int], location: Location) -> None:
    """As a run of the finalizer does after the ends of a partition."""
    [row] = sql(
        location.database,
        "SELECT topic_id, number FROM broker.partition WHERE partition_id = %s",
        location.partition_id,
    )
    places = [(row.topic_id, row.number)]
    engine.finalizer._orphans.pass_over(location.database, places, [], marks)


def archive(engine: Engine, *, after_ms: int = 0, keep: int = 10**6, limit: int = 1000) -> int:
    """Move what has ended long enough ago to the archive; answers how many."""
    settings = replace(engine.settings, archive_after_ms=after_ms, archive_keep=keep)
    return Archive(engine.database, settings).move(limit)


def decided(engine: Engine, txn_id: TxnID, status: TxnStatus) -> None:
    """Let the coordinator believe that all participants have carried the end out."""
    forged(
        engine,
        "UPDATE coordinator.transaction SET status = %s, decided_at = clock_timestamp(),"
        " ended_at = clock_timestamp() WHERE (tc_id, sequence) = (%s, %s)",
        status.value,
        txn_id.tc_id,
        txn_id.sequence,
    )
    state = status.value.lower()
    coordinator_sql(engine, "UPDATE coordinator.txn_partition SET state = %s", state)
    coordinator_sql(engine, "UPDATE coordinator.txn_subscription SET state = %s", state)


def finalize(engine: Engine) -> None:
    """Carry out whatever is due, as a worker's sweep does."""
    for tc_id in engine.finalizer.due():
        engine.finalizer.finalize(tc_id)


def end(engine: Engine, txn_id: TxnID, action: TxnAction) -> None:
    """End a transaction and carry it out."""
    engine.coordinator.end(txn_id, action)
    finalize(engine)


def commit(engine: Engine, txn_id: TxnID) -> None:
    end(engine, txn_id, TxnAction.COMMIT)


def abort(engine: Engine, txn_id: TxnID) -> None:
    end(engine, txn_id, TxnAction.ABORT)


def texts(messages: Sequence[StoredMessage]) -> list[str]:
    return [message.payload.decode() for message in messages]


def fetched(engine: Engine, partition: PartitionName = P0, **options: Any) -> list[str]:
    return texts(engine.log.fetch(partition, **options).messages)


def cut(engine: Engine, offset: int) -> None:
    """Cut the end of the log off, as an operator does."""
    engine.partitions.take_offline(P0, reason="to cut it")
    engine.partitions.truncate(P0, offset)
    engine.partitions.bring_online(P0)


def join(session: Session, txn_id: TxnID, topic: Topic) -> None:
    """As a first append to partition 0 does; the SQL transaction is the caller's."""
    session.one(
        "join_partitions",
        tc_id=txn_id.tc_id,
        sequence=txn_id.sequence,
        owner=None,
        topic_ids=[topic.topic_id],
        topics=[str(topic.name)],
        partitions=[0],
        brokers=[topic.brokers[0]],
    )


def consume(engine: Engine, txn_id: TxnID, number: int = 1) -> list[MessageID]:
    """Receive messages and acknowledge them in a transaction; answers their ids."""
    taken = [each.message_id for each in engine.receive(SUBSCRIPTION, "c1", max_messages=number)]
    assert taken
    engine.acknowledge(SUBSCRIPTION, "c1", taken, txn_id=txn_id)
    return taken


def indexed_txns(
    engine: Engine, partition: PartitionName, lower: int, upper: int
) -> tuple[IndexedTxn, ...]:
    """Ended transactions whose marker stands in [lower, upper), in order."""
    [found] = engine.log.look(partition, questions.indexed(lower, upper))
    return found


def statuses(engine: Engine) -> tuple[PartitionStatus, ...]:
    """Of all partitions of the topic, none of which may be unavailable."""
    found, failures = engine.log.statuses(TOPIC, range(100))
    assert failures == {}
    return found


def received(engine: Engine, consumer: str = "c1", **options: Any) -> list[str]:
    return sorted(texts(engine.receive(SUBSCRIPTION, consumer, **options)))


def sql(database: Database, statement: str, *params: object) -> list[Any]:
    """Run a statement of the test's own, to control what only time or a crash would change."""
    with database._connections.lent() as connection:
        cursor = connection.execute(cast("Any", statement), params)
        return cursor.fetchall() if cursor.description is not None else []


def coordinator_sql(engine: Engine, statement: str, *params: object) -> list[Any]:
    return sql(engine.database, statement, *params)


def forged(engine: Engine, statement: str, *params: object) -> None:
    """Bring about on the coordinators' database what its triggers refuse to everybody."""
    with engine.database._connections.lent() as connection, connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(cast("Any", statement), params)


def broker_sql(engine: Engine, statement: str, *params: object) -> list[Any]:
    """On the broker of partition 0."""
    return sql(engine.log.locate(P0).database, statement, *params)


def await_waiting(database: Database) -> None:
    """Wait until a statement waits for a lock."""
    for _ in range(10_000):
        if sql(
            database,
            "SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'",
        ):
            return
        threading.Event().wait(0.001)
    raise AssertionError("nobody waits")


@contextmanager
def autovacuum_off(database: Database, schema: str) -> Iterator[None]:
    """Let nobody but the test count what a schema's tables hold: a plan that is made while one of
    them has been counted and another has not is not the plan that the test is about."""
    names = [
        row.name
        for row in sql(
            database,
            "SELECT format('%%I.%%I', schemaname, tablename) AS name FROM pg_tables"
            " WHERE schemaname = %s ORDER BY 1",
            schema,
        )
    ]
    for name in names:
        sql(database, f"ALTER TABLE {name} SET (autovacuum_enabled = false)")
    try:
        yield
    finally:
        for name in names:
            sql(database, f"ALTER TABLE {name} RESET (autovacuum_enabled)")


def overdue(engine: Engine, txn_id: TxnID) -> None:
    """Let a transaction's deadline pass."""
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET deadline = clock_timestamp() - interval '1 ms'"
        " WHERE (tc_id, sequence) = (%s, %s)",
        txn_id.tc_id,
        txn_id.sequence,
    )


def time_out_deliveries(
    engine: Engine, name: SubscriptionName | None = None, consumer: str | None = None
) -> None:
    """Let the deadline of everything in flight pass, or of what one consumer has."""
    for database in engine._brokers:
        for row in sql(
            database,
            "SELECT d.subscription_id, d.partition_id, d.state, s.topic, s.name"
            " FROM broker.dispatch d JOIN broker.subscription s USING (subscription_id)",
        ):
            if name is not None and (row.topic, row.name) != (str(name.topic), name.name):
                continue
            state = dispatch.decode(row.state, -1)
            late = tuple(
                msgspec.structs.replace(one, deadline_ms=0)
                if consumer in (None, one.consumer)
                else one
                for one in state.deliveries
            )
            sql(
                database,
                "UPDATE broker.dispatch SET next_deadline = 'epoch', state = %s"
                " WHERE subscription_id = %s AND partition_id = %s",
                dispatch.encode(msgspec.structs.replace(state, deliveries=late)),
                row.subscription_id,
                row.partition_id,
            )


def let_leases_run_out(engine: Engine, name: SubscriptionName) -> None:
    """Let nobody have called for longer than a subscription's lease."""
    for database in engine._brokers:
        sql(
            database,
            "UPDATE broker.subscription SET consumer_until = clock_timestamp()"
            " WHERE (topic, name) = (%s, %s)",
            str(name.topic),
            name.name,
        )
        for row in sql(
            database,
            "SELECT d.subscription_id, d.partition_id, d.state"
            " FROM broker.dispatch d JOIN broker.subscription s USING (subscription_id)"
            " WHERE (s.topic, s.name) = (%s, %s)",
            str(name.topic),
            name.name,
        ):
            state = dispatch.decode(row.state, -1)
            gone = dict.fromkeys(state.present, 0)
            sql(
                database,
                "UPDATE broker.dispatch SET state = %s"
                " WHERE subscription_id = %s AND partition_id = %s",
                dispatch.encode(msgspec.structs.replace(state, present=gone)),
                row.subscription_id,
                row.partition_id,
            )
    engine._delivery._leases._remembered.clear()


def due_now(engine: Engine) -> None:
    """Let every back-off of the finalizer pass."""
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET next_attempt_at = clock_timestamp()"
        " WHERE next_attempt_at IS NOT NULL",
    )


def pause_longest(engine: Engine) -> None:
    """Let the finalizer's next back-off from what is decided be the longest: a tenth of a second,
    the first, may have passed before a test looks."""
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET attempts = 10 WHERE next_attempt_at IS NOT NULL",
    )


def lose_derived_state(engine: Engine) -> None:
    """Empty the UNLOGGED tables of all brokers, as PostgreSQL does after a crash."""
    for database in engine._brokers:
        sql(
            database,
            "TRUNCATE broker.partition_live, broker.ongoing_txn, broker.dispatch",
        )


@contextmanager
def unreachable(engine: Engine, broker: str, *, patience: float = 0.05) -> Iterator[None]:
    """Let a broker refuse connections: its engine's URL leads nowhere meanwhile.

    Callers give up after ``patience`` seconds.
    """
    known = engine._brokers._databases[broker]
    dead = Database(
        broker,
        "host=/nonexistent dbname=none",
        files=FILES,
        unavailable=known._unavailable,
        pool_size=1,
    )
    dead._connections.pool.timeout = patience
    engine._brokers._databases[broker] = dead
    try:
        yield
    finally:
        engine._brokers._databases[broker] = known
        dead.close()

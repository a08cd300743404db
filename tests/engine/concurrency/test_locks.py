"""What the locks of topics, records and heads are there for: one connection holds what a call under
way holds, another call waits for it. Without the lock in question each test fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import psycopg
import pytest

from engine import Engine
from engine.coordinator import partitions
from engine.log import retention
from engine.log.appending import Batch
from engine.log.appending import _Partition as Appends
from engine.model.batch import encode
from engine.model.errors import (
    InvalidPartitionState,
    InvalidTxnStatus,
    TopicInUse,
    TopicNotFound,
)
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from engine.postgres.session import Row
from tests.engine.concurrency.waiting import Background, beside, broker, while_open
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    batch,
    broker_sql,
    commit,
    end_txns,
    fetched,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
)

COMMIT, ABORT = TxnAction
MARKER, SIDECAR = BufferKind
ORPHAN = TxnID(0, 4711)
#: Of a batch outside transactions or in one, and of one that goes to the sidecar log.
_APPEND = (
    "SELECT broker.append(%s, ARRAY[%s::bigint], ARRAY[%s::bytea], '{NULL}', '{NULL}',"
    " ARRAY[%s::integer], ARRAY[%s::bigint])"
)
_APPEND_SIDECAR = "SELECT broker.append_sidecar(%s, %s, %s, NULL, NULL, %s, %s)"


def appending(
    engine: Engine, *payloads: str, txn_id: TxnID | None = None, sidecar: bool = False
) -> AbstractContextManager[None]:
    """An append of one batch to partition 0 that has the lock until the end of the block."""
    return while_open(
        broker(engine),
        _APPEND_SIDECAR if sidecar else _APPEND,
        engine.log.locate(P0).partition_id,
        len(payloads),
        encode(batch(*payloads)),
        None if txn_id is None else txn_id.tc_id,
        None if txn_id is None else txn_id.sequence,
    )


@contextmanager
def changing(engine: Engine, *, online: bool) -> Iterator[None]:
    """A call that takes partition 0 offline, or brings it online, until the end of the block."""
    location = engine.log.locate(P0)
    with broker(engine).transaction() as session:
        partitions._hold(session, location, P0)
        key = {"partition_id": location.partition_id}
        session.run("set_online", **key, online=online, reason=None)
        yield


def cut(engine: Engine) -> Callable[[], Row]:
    """One step of a truncation to offset 0."""
    return partial(partitions._cut, engine.log.locate(P0), 0, decided=(), end=None)


@pytest.mark.parametrize(("buffer", "in_txn"), [(MARKER, False), (MARKER, True), (SIDECAR, True)])
def test_a_transaction_ends_behind_the_append_that_has_the_lock(
    engine: Engine, buffer: BufferKind, in_txn: bool
) -> None:
    make_topic(engine, buffer=buffer)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    with appending(engine, "b", "c", txn_id=txn if in_txn else None, sidecar=buffer is SIDECAR):
        end = Background(broker(engine), lambda: engine.finalizer.finalize(0))
        end.waits()
    end.result()
    engine.produce(P0, batch("d"))
    assert fetched(engine) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_transaction_reaches_up_to_what_it_appends_behind_another_append(
    engine: Engine, batches: int
) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    one = Batch(1, encode(batch("a")), None, None, txn.tc_id, txn.sequence)
    mine = Appends(engine.log.locate(P0))
    mine.append([one])
    with appending(engine, "b", "c"):
        late = Background(broker(engine), lambda: mine.append([one] * batches))
        late.waits()
    late.result()
    [ongoing] = engine.log.ongoing(P0)
    assert (ongoing.first_offset, ongoing.last_offset) == (0, 2 + batches)


@pytest.mark.parametrize("made", [False, True])
def test_an_append_to_the_sidecar_log_behind_an_end_is_refused(engine: Engine, made: bool) -> None:
    """While there is no such log, the end holds no lock of it."""
    make_topic(engine, buffer=SIDECAR)
    txn = open_txn(engine)
    if made:
        engine.produce(P0, batch("a"), txn_id=txn)
    with while_open(
        broker(engine),
        "SELECT broker.end_txns(%s, '{0}', %s, '{false}', true, '{}', '{}')",
        engine.log.locate(P0).partition_id,
        [txn.sequence],
    ):
        late = Background(broker(engine), lambda: engine.produce(P0, batch("b"), txn_id=txn))
        late.waits()
    with pytest.raises(InvalidTxnStatus):
        late.result()
    assert engine.log.ongoing(P0) == ()
    assert fetched(engine) == ["a"] * made


def test_who_finds_no_sidecar_log_uses_the_one_that_is_being_made(engine: Engine) -> None:
    make_topic(engine, buffer=SIDECAR)
    first, second = open_txn(engine), open_txn(engine)
    with appending(engine, "a", txn_id=first, sidecar=True):
        late = Background(broker(engine), lambda: engine.produce(P0, batch("b"), txn_id=second))
        late.waits()
    late.result()
    end_txns(engine.log.locate(P0), (first, COMMIT), (second, COMMIT))
    assert fetched(engine) == ["a", "b"]


@pytest.mark.parametrize("numbers", [[0], [0, 2]])  # on one broker
def test_an_acknowledgement_adds_to_what_is_just_being_acknowledged(
    engine: Engine, numbers: list[int]
) -> None:
    """Also one that was decided on before it waited."""
    make_topic(engine, partitions=3)
    subscribe(engine)
    for number in numbers:
        engine.produce(PartitionName(TOPIC, number), batch("a", "b"))
    given = engine.receive(SUBSCRIPTION, "c")
    later = [message.message_id for message in given if message.offset == 1]
    acknowledged = "UPDATE broker.cursor SET mark_delete = 0 WHERE partition_id = ANY (%s)"
    ids = [engine.log.locate(PartitionName(TOPIC, number)).partition_id for number in numbers]
    with while_open(broker(engine), acknowledged, ids):
        late = Background(broker(engine), lambda: engine.acknowledge(SUBSCRIPTION, "c", later))
        late.waits()
    late.result()
    cursors = broker_sql(
        engine, "SELECT mark_delete FROM broker.cursor WHERE partition_id = ANY (%s)", ids
    )
    assert cursors == [(1,)] * len(numbers)


def test_what_is_just_being_acknowledged_is_not_given_again(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    given = engine.receive(SUBSCRIPTION, "c1")
    engine.nack(SUBSCRIPTION, "c1", [message.message_id for message in given])
    with while_open(broker(engine), "UPDATE broker.cursor SET mark_delete = 0"):
        late = Background(broker(engine), lambda: received(engine, "c2"))
        late.waits()
    assert late.result() == ["b"]


def test_retention_moves_no_cursor_over_what_a_transaction_is_just_claiming(
    engine: Engine,
) -> None:
    """A claim leaves the cursor as it is: who waits only to change it sees nothing of the claim."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    broker_sql(
        engine,
        "UPDATE broker.partition SET log_start_offset = 1 WHERE topic = %s",
        str(TOPIC),
    )
    with while_open(
        broker(engine),
        "WITH held AS (SELECT subscription_id, partition_id FROM broker.cursor FOR UPDATE)"
        " INSERT INTO broker.pending_ack"
        " SELECT subscription_id, partition_id, 0, 7, 'INDIVIDUAL', '{[0,1)}' FROM held",
    ):
        step = partial(broker(engine).retrying, retention._advance_cursors)
        sweep = Background(broker(engine), step)
        sweep.waits()
    sweep.result()
    assert broker_sql(engine, "SELECT mark_delete FROM broker.cursor") == [(-1,)]


def test_a_segment_is_sealed_behind_the_append_that_has_the_lock(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    [segment] = broker_sql(
        engine,
        "SELECT partition_id, ledger_id FROM broker.segment WHERE partition_id = %s",
        engine.log.locate(P0).partition_id,
    )
    with appending(engine, "b", "c"):
        sealing = Background(broker(engine), partial(retention._seal, broker(engine), segment))
        sealing.waits()
    sealing.result()
    engine.produce(P0, batch("d"))
    assert fetched(engine) == ["a", "b", "c", "d"]
    spans = [(segment.first_offset, segment.last_offset) for segment in engine.log.segments(P0)]
    assert spans == [(3, 3), (0, 2)]


@pytest.mark.parametrize(("buffer", "in_txn"), [(MARKER, False), (SIDECAR, False), (SIDECAR, True)])
def test_a_decision_is_carried_out_again_behind_the_append_that_has_the_lock(
    engine: Engine, buffer: BufferKind, in_txn: bool
) -> None:
    make_topic(engine, buffer=buffer)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    other = open_txn(engine) if in_txn else None
    with appending(engine, "b", "c", txn_id=other, sidecar=in_txn):
        retry = Background(broker(engine), lambda: engine.remedies.retry(txn))
        retry.waits()
    retry.result()
    if other is not None:
        end_txns(engine.log.locate(P0), (other, COMMIT))
    engine.produce(P0, batch("d"))
    assert sorted(fetched(engine)) == ["a", "b", "c", "d"]
    assert engine.inspect.check_invariants() == 0


@pytest.mark.parametrize("way", ["retry", "forced abort"])
def test_nothing_is_ended_in_a_partition_that_is_just_taken_offline(
    engine: Engine, way: str
) -> None:
    make_topic(engine)
    txn = open_txn(engine) if way == "retry" else ORPHAN
    engine.log.append(P0, batch("a"), txn_id=txn)
    if way == "retry":
        engine.coordinator.end(txn, COMMIT)
    with changing(engine, online=False):
        ended = Background(
            broker(engine),
            (lambda: engine.remedies.retry(txn).replayed)
            if way == "retry"
            else (lambda: engine.partitions.force_abort(P0, txn)),
        )
        ended.waits()
    if way == "retry":
        assert ended.result() == ()
    else:
        with pytest.raises(InvalidPartitionState):
            ended.result()
    assert len(broker_sql(engine, "SELECT FROM broker.ongoing_txn")) == 1


def test_no_sidecar_log_is_swept_in_a_partition_that_is_just_taken_offline(
    engine: Engine,
) -> None:
    make_topic(engine, buffer=SIDECAR)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    engine.produce(P0, batch("b"), txn_id=open_txn(engine))  # a log's last entry stays
    step = "SELECT deleted, rewritten FROM broker.compact_sidecar(%s, 9)"
    partition_id = engine.log.locate(P0).partition_id
    with changing(engine, online=False):
        sweep = Background(broker(engine), lambda: broker_sql(engine, step, partition_id))
        sweep.waits()
    assert sweep.result() == [(0, 0)]
    engine.partitions.bring_online(P0)
    assert broker_sql(engine, step, partition_id) == [(0, 1)]


def test_no_segment_is_offloaded_of_a_partition_that_is_just_taken_offline(
    engine: Engine,
) -> None:
    make_topic(engine, segment_max_messages=1)
    for payload in "ab":
        engine.produce(P0, batch(payload))
    offload = (
        "SELECT broker.offload_segment(partition_id, ledger_id, 0, gen_random_uuid(), 1,"
        " length(body), 1, '') AS done FROM broker.entry"
        " WHERE partition_id = %s AND last_offset = 0"
    )
    partition_id = engine.log.locate(P0).partition_id
    with changing(engine, online=False):
        sweep = Background(broker(engine), lambda: broker_sql(engine, offload, partition_id))
        sweep.waits()
    assert sweep.result() == [(False,)]
    engine.partitions.bring_online(P0)
    assert broker_sql(engine, offload, partition_id) == [(True,)]


def test_nothing_is_cut_off_a_partition_that_is_just_brought_online(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    engine.partitions.take_offline(P0, reason="test")
    with changing(engine, online=True):
        truncation = Background(broker(engine), cut(engine))
        truncation.waits()
    assert truncation.result().result == "online"  # type: ignore[attr-defined]
    assert fetched(engine) == ["a"]


def test_no_snapshot_outlives_the_messages_that_it_tells_of(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery would restore from it what has been cut off."""
    make_topic(engine)
    engine.produce(P0, batch("a"))
    engine.partitions.take_offline(P0, reason="test")
    begun = beside(monkeypatch, "note_snapshot", broker(engine), cut(engine), way="run")
    engine.partitions.snapshot(P0)
    assert begun[0].result().result == "truncated"  # type: ignore[attr-defined]
    assert broker_sql(engine, "SELECT FROM broker.snapshot") == []


def test_a_truncation_waits_for_cursors_in_the_order_of_their_subscriptions_names(
    engine: Engine,
) -> None:
    """An end that has the first one and waits for the next would wait for it for ever."""
    make_topic(engine)
    names = [SubscriptionName(TOPIC, name) for name in ("z", "a")]
    for name in names:
        subscribe(engine, name)
        engine.receive(name, "c1")
    engine.produce(P0, batch("a"))
    engine.partitions.take_offline(P0, reason="test")
    cursor = (
        "SELECT FROM broker.cursor c JOIN broker.subscription s USING (subscription_id)"
        " WHERE s.name = %s FOR UPDATE OF c NOWAIT"
    )
    with while_open(broker(engine), cursor, "a"):
        cutting = Background(broker(engine), cut(engine))
        cutting.waits()
        with while_open(broker(engine), cursor, "z"):
            pass
    assert cutting.result().result == "truncated"  # type: ignore[attr-defined]


def test_a_truncation_sees_what_was_acknowledged_while_the_partition_was_taken_offline(
    engine: Engine,
) -> None:
    """An acknowledgement that is on its way has looked whether the partition serves, and waits for
    its commit. Cut off, it would be gone from an open transaction, whose program was told that it
    holds."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    engine.partitions.take_offline(P0, reason="test")
    with while_open(
        broker(engine),
        "WITH held AS (SELECT * FROM broker.cursor FOR UPDATE) INSERT INTO broker.pending_ack"
        " SELECT subscription_id, partition_id, %s, %s, 'INDIVIDUAL', '{[0,1)}' FROM held",
        txn.tc_id,
        txn.sequence,
    ):
        cutting = Background(broker(engine), lambda: engine.partitions.truncate(P0, 0))
        cutting.waits()
    with pytest.raises(TopicInUse, match=str(txn)):
        cutting.result()
    assert broker_sql(engine, "SELECT FROM broker.pending_ack") == [()]


def test_a_subscription_to_what_comes_begins_where_a_cut_has_ended(engine: Engine) -> None:
    """It would take for acknowledged what is appended in the place of what is cut off."""
    make_topic(engine)
    engine.produce(P0, batch("a"))
    engine.partitions.take_offline(P0, reason="test")
    with while_open(
        broker(engine),
        "SELECT broker.truncate(%s, 0, 9, '{}')",
        engine.log.locate(P0).partition_id,
    ):
        making = Background(broker(engine), lambda: subscribe(engine, initial_position="latest"))
        making.waits()
    making.result()
    engine.partitions.bring_online(P0)
    engine.produce(P0, batch("b"))
    assert received(engine) == ["b"]


@pytest.mark.parametrize("buffer", BufferKind)
def test_a_deletion_takes_along_what_the_append_that_has_the_lock_stores(
    engine: Engine, buffer: BufferKind
) -> None:
    make_topic(engine, buffer=buffer)
    database = broker(engine)
    with appending(engine, "a", txn_id=ORPHAN, sidecar=buffer is SIDECAR):
        deletion = Background(database, partial(engine.topics.delete, TOPIC))
        deletion.waits()
    deletion.result()
    assert sql(database, "SELECT FROM broker.ongoing_txn") == []
    heads = "SELECT FROM broker.partition_live l LEFT JOIN broker.partition p USING (partition_id)"
    assert sql(database, f"{heads} WHERE p.partition_id IS NULL") == []


def test_a_topic_that_is_deleted_waits_for_who_makes_its_partitions(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = partial(engine.topics.delete, TOPIC)
    begun = beside(monkeypatch, "hold_topic_id", engine.database, delete, way="run")
    make_topic(engine, partitions=2)
    begun[0].result()
    with pytest.raises(TopicNotFound):
        engine.topics.get(TOPIC, fresh=True)
    for database in engine._brokers:
        left = "SELECT FROM broker.partition WHERE topic = %s"
        assert sql(database, left, str(TOPIC)) == []


def test_brokers_hear_of_two_changes_in_the_order_of_the_catalog(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would drop by the retention of one what is to be kept by that of the other."""
    make_topic(engine)
    longer = partial(make_topic, engine, retention_ms=2)
    begun = beside(monkeypatch, "hold_topic_id", engine.database, longer, way="run")
    make_topic(engine, retention_ms=1)
    begun[0].result()
    assert engine.topics.get(TOPIC, fresh=True).settings.retention_ms == 2
    told = "SELECT retention_ms FROM broker.partition WHERE topic = %s"
    assert broker_sql(engine, told, str(TOPIC)) == [(2,)]


def test_nobody_who_joins_waits_for_a_deletion_that_waits_for_who_makes_partitions(
    engine: Engine,
) -> None:
    """The latter asks brokers, which may take long."""
    make_topic(engine)
    with psycopg.connect(str(engine.database._connections.pool.conninfo)) as making:
        making.execute("SET lock_timeout = '100ms'")
        making.execute("SELECT FROM coordinator.topic FOR NO KEY UPDATE")
        deletion = Background(engine.database, lambda: engine.topics.delete(TOPIC))
        deletion.waits()
        making.execute("SELECT FROM coordinator.joining FOR KEY SHARE")
    deletion.result()


@pytest.mark.parametrize("step", ["expire", "drop emptied"])
def test_who_moves_the_start_of_a_log_locks_its_record_before_its_head(
    engine: Engine, step: str
) -> None:
    make_topic(engine, segment_max_messages=1, retention_bytes=0)
    for payload in "ab":
        engine.produce(P0, batch(payload))
    database, key = broker(engine), [engine.log.locate(P0).partition_id]
    [due] = sql(
        database,
        "SELECT partition_id, topic, number, 1 AS log_start_offset"
        " FROM broker.partition WHERE partition_id = %s",
        *key,
    )
    if step == "drop emptied":
        sql(database, "DELETE FROM broker.entry WHERE partition_id = %s AND last_offset = 0", *key)

    def move() -> object:
        if step == "expire":
            return retention._expire(database, due)
        return retention.drop_emptied(database, due.partition_id, changes=0)

    with psycopg.connect(str(database._connections.pool.conninfo)) as operator:
        operator.execute("SET lock_timeout = '100ms'")
        operator.execute(
            "SELECT FROM broker.partition WHERE partition_id = %s FOR NO KEY UPDATE", key
        )
        moving = Background(database, move)
        moving.waits()
        # It waits less than PostgreSQL lets a deadlock stand, so it would be the one that fails.
        operator.execute(
            "SELECT FROM broker.partition_live WHERE partition_id = %s FOR UPDATE", key
        )
    moving.result()
    assert engine.log.status(P0).log_start_offset == 1

"""A sweep leaves what somebody else has locked to the next time, and waits for nobody. Without
``SKIP LOCKED`` each test fails (for the archive: ``tests/engine/coordinator/test_archive.py``)."""

from __future__ import annotations

from datetime import timedelta

from engine import Engine
from engine.model.topic_name import PartitionName
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.concurrency.waiting import broker, locked, while_open
from tests.engine.support import P0, TOPIC, batch, coordinator_sql, make_topic, open_txn

P2 = PartitionName(TOPIC, 2)


def test_who_recovers_a_coordinator_waits_for_no_end_that_is_being_carried_out(
    engine: Engine,
) -> None:
    held, free = open_txn(engine), open_txn(engine)
    for txn in (held, free):
        engine.coordinator.end(txn, TxnAction.COMMIT)
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction"
        " SET attempts = 1, next_attempt_at = clock_timestamp() + interval '9 seconds'",
    )
    lock = "SELECT FROM coordinator.transaction WHERE sequence = %s FOR UPDATE"
    with while_open(engine.database, lock, held.sequence):
        assert engine.recovery.recover(0).ended == 1
    statuses = {txn: engine.coordinator.get(txn).status for txn in (held, free)}
    assert statuses == {held: TxnStatus.COMMITTING, free: TxnStatus.COMMITTED}
    assert engine.recovery.recover(0).ended == 1


def test_a_sample_of_positions_waits_for_no_append(engine: Engine) -> None:
    make_topic(engine, partitions=3)
    assert broker(engine) is engine.log.locate(P2).database
    for partition in (P0, P2):
        engine.produce(partition, batch("a"))

    def samples(partition: PartitionName) -> int:
        return len(engine.log.history(partition, since=timedelta(minutes=1)))

    with while_open(broker(engine), locked(engine)):
        engine.sample_positions()
        assert (samples(P0), samples(P2)) == (0, 1)
    engine.sample_positions()
    assert (samples(P0), samples(P2)) == (1, 1)

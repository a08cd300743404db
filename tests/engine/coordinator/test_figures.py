from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import Engine
from engine.coordinator import figures
from engine.model.errors import CoordinatorUnavailable, TransactionConflict
from engine.model.figures import Figure, FigureName, Tally
from engine.model.message import MessageID
from engine.model.txn_status import TxnAction
from engine.postgres.database import Database
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    commit,
    coordinator_sql,
    due_now,
    finalize,
    make_topic,
    open_txn,
    overdue,
    subscribe,
    unreachable,
)


def counted(engine: Engine, name: FigureName) -> dict[str, Figure]:
    engine.figures.write()
    return {figure.label: figure for figure in engine.figures.read() if figure.name is name}


def counts(engine: Engine, name: FigureName) -> dict[str, int]:
    return {label: figure.count for label, figure in counted(engine, name).items()}


def test_ends_are_counted_once_each_by_outcome_and_reason(engine: Engine) -> None:
    make_topic(engine)
    for tc_id in range(3):
        txn = open_txn(engine, tc_id=tc_id)
        engine.produce(P0, batch("x"), txn_id=txn)
        commit(engine, txn)
    abort(engine, open_txn(engine))
    overdue(engine, open_txn(engine))
    engine.coordinator.expire()
    for _ in range(3):
        finalize(engine)
        due_now(engine)

    expected = {"committed/client": 3, "aborted/client": 1, "aborted/timeout": 1}
    assert counts(engine, FigureName.EXECUTION) == expected
    assert counts(engine, FigureName.FINALIZE) == {"committed": 3, "aborted": 2}
    assert counts(engine, FigureName.VISIBLE) == {"": 3}


def test_durations_are_those_of_the_databases_clock(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn)
    engine.coordinator.end(txn, TxnAction.COMMIT)
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET opened_at = opened_at - interval '100 s',"
        " decided_at = decided_at - interval '40 s'",
    )
    finalize(engine)
    assert counted(engine, FigureName.EXECUTION)["committed/client"].seconds == pytest.approx(60, 1)
    for name, label in ((FigureName.FINALIZE, "committed"), (FigureName.VISIBLE, "")):
        figure = counted(engine, name)[label]
        assert figure.seconds == pytest.approx(40, 1)
        assert dict(figure.cumulative())[30.0] == 0
        assert dict(figure.cumulative())[60.0] == 1


def test_a_participant_that_must_be_asked_again_is_a_retry(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("down"), txn_id=txn)
    engine.produce(P1, batch("up"), txn_id=txn)
    engine._joining.subscriptions(txn, [SUBSCRIPTION], owner=None)
    engine.coordinator.end(txn, TxnAction.COMMIT)
    with unreachable(engine, engine.topics.get(TOPIC).brokers[0]):
        finalize(engine)
    assert counts(engine, FigureName.FINALIZE_RETRIES) == {"partition": 1, "subscription": 1}
    assert counts(engine, FigureName.VISIBLE) == {"": 1}
    assert counts(engine, FigureName.FINALIZE) == {}
    due_now(engine)
    finalize(engine)
    assert counts(engine, FigureName.FINALIZE_RETRIES) == {"partition": 1, "subscription": 1}
    assert counts(engine, FigureName.VISIBLE) == {"": 2}
    assert counts(engine, FigureName.FINALIZE) == {"committed": 1}


def test_refused_acknowledgements_are_counted_as_conflicts(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("x"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    first, second = open_txn(engine), open_txn(engine)
    ids: list[MessageID] = [message.message_id]
    engine.acknowledge(SUBSCRIPTION, "c1", ids, txn_id=first)
    for _ in range(2):
        with pytest.raises(TransactionConflict):
            engine.acknowledge(SUBSCRIPTION, "c1", ids, txn_id=second)
    assert counts(engine, FigureName.PENDING_ACK_CONFLICTS) == {"": 2}


def test_what_is_counted_at_once_adds_up(engine: Engine) -> None:
    def write(times: int) -> None:
        tally = Tally()
        for name in (FigureName.TASKS, FigureName.FINALIZE):
            tally.observe(name, 0.5 * times, "a")
        with engine.database.session() as session:
            figures.add(session, tally, shard=times)

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(40)))
    for name in (FigureName.TASKS, FigureName.FINALIZE):
        figure = counted(engine, name)["a"]
        assert (figure.count, sum(figure.buckets)) == (40, 40)
        assert figure.seconds == pytest.approx(sum(0.5 * n for n in range(40)))


def test_rows_are_few_however_many_coordinators_there_are(engine: Engine) -> None:
    for shard in range(100):
        tally = Tally()
        tally.count(FigureName.TASKS)
        with engine.database.session() as session:
            figures.add(session, tally, shard=shard)
    [row] = coordinator_sql(engine, "SELECT count(*) AS count FROM coordinator.figure")
    assert row.count <= 16
    assert counts(engine, FigureName.TASKS) == {"": 100}


def test_what_cannot_be_written_waits_for_the_next_time(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.figures.count(FigureName.TASKS, "a")
    database = Database(
        "gone",
        "host=/nonexistent dbname=none",
        files=("figures",),
        unavailable=CoordinatorUnavailable,
        pool_size=1,
    )
    database._connections.pool.timeout = 0.05
    with monkeypatch.context() as patched:
        patched.setattr(engine.figures, "_database", database)
        engine.figures.write()
    database.close()
    engine.figures.count(FigureName.TASKS, "a")
    assert counts(engine, FigureName.TASKS) == {"a": 2}


def test_an_engine_that_closes_writes_what_it_has_counted(engine: Engine) -> None:
    engine.figures.count(FigureName.TASKS, "a")
    engine.close()
    other = type(engine)(
        engine._urls["coordinator"],
        {name: url for name, url in engine._urls.items() if name != "coordinator"},
        engine.settings,
    )
    assert counts(other, FigureName.TASKS) == {"a": 1}
    other.close()

"""A transaction that is broken off at every statement boundary, one after the other, and retried.

Begin, produce on both brokers, acknowledge, commit or abort, carry out: the connection is cut
before and after each statement, COMMIT included, or PostgreSQL answers it with an error of its own,
of three kinds by turns. The client sends again with the same keys.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg.conninfo
import pytest
from psycopg import sql

from engine import Engine, EngineSettings
from engine.model.errors import SubscriptionNotFound, TopicNotFound
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.checker.audit import audit
from tests.checker.check import check
from tests.checker.history import Ack, Begin, End, Fault, Fetch, Produce, Receive
from tests.checker.network import CALM
from tests.checker.run import Run, furnish, insisting
from tests.checker.simulation import Running
from tests.checker.wire_proxy import Break, WireProxy
from tests.checker.workload import Requests, Setting
from tests.engine.support import batch
from tests.support.databases import Databases

pytestmark = [pytest.mark.checker, pytest.mark.timeout(600)]
#: Fewer means that the flow has lost its parts, and the test its meaning.
LEAST_BOUNDARIES = 20
#: What happens at one point after the other, by turns.
_BREAKS = (
    (Break.BEFORE,),
    (Break.AFTER,),
    (Break.SERIALIZATION, Break.DEADLOCK, Break.DISK_FULL),
)
_TOPIC = TopicName("test", "points", "operated")
_PARTITIONS = [PartitionName(_TOPIC, number) for number in range(2)]
_WORK = SubscriptionName(_TOPIC, "work")


@pytest.fixture
def proxy(engine: Engine, databases: Databases) -> Iterator[WireProxy]:
    """In front of all databases, which are empty."""
    del engine
    host = psycopg.conninfo.conninfo_to_dict(databases.coordinator_url)["host"]
    with (
        tempfile.TemporaryDirectory(prefix="txnconsole-proxy-") as directory,
        WireProxy(Path(directory), Path(str(host))) as running,
    ):
        yield running


@pytest.fixture
def run(proxy: WireProxy, databases: Databases) -> Iterator[Run]:
    """An engine that speaks through the proxy."""
    coordinator, *brokers = (
        psycopg.conninfo.make_conninfo(url, host=str(proxy.directory)) for url in databases.all_urls
    )
    urls = {f"broker-{number}": url for number, url in enumerate(brokers, 1)}
    engine = Engine(coordinator, urls, EngineSettings(coordinators=1, snapshot_min_interval_ms=1))
    engine.migrate()
    yield Run(engine, furnish(engine, "points"), trouble=CALM)
    engine.close()


def flow(setting: Setting, number: int, *, commit: bool) -> Requests:
    """One transaction, insisted on; a plain message beside it, which the next one acknowledges."""
    first, second, *_, other = setting.partitions  # two marker-buffered ones, and a sidecar's
    txn = yield from again(Begin())
    sequence = number * 10
    for step, partition in enumerate((first, second, other)):
        yield from again(
            Produce(
                partition=partition,
                values=(f"t{number}.{step}.a", f"t{number}.{step}.b"),
                txn=txn.txn,
                producer="flow",
                sequence=sequence + step,
            )
        )
    subscription = setting.subscriptions[0]
    received = yield from again(Receive(subscription=subscription, consumer="flow", max_messages=3))
    messages = tuple((place, offset, mid) for place, offset, _, mid in received.messages)
    if messages:
        yield from again(
            Ack(subscription=subscription, consumer="flow", messages=messages, txn=txn.txn)
        )
    yield from again(
        Produce(partition=first, values=(f"p{number}",), producer="plain", sequence=number)
    )
    yield from again(End(commit=(txn.txn,)) if commit else End(abort=(txn.txn,)))
    yield from again(Fetch(partition=first, from_offset=max(0, number - 20)))


def again(op: Begin) -> Requests:
    """Send until it is answered."""
    for _ in range(10):
        answer = yield op
        if answer.answer != "info":
            assert answer.answer == "ok", answer
            return answer
    raise AssertionError(f"no answer to {op}")


def once(run: Run, number: int) -> None:
    """One flow, and its transaction carried out."""
    running = Running(flow(run.setting, number, commit=number % 3 > 0), "flow")
    while running.step(run.network):
        pass
    engine = run.engine
    for tc_id in insisting(engine.finalizer.due):
        insisting(lambda tc_id=tc_id: engine.finalizer.finalize(tc_id))
    insisting(engine.take_snapshots)


@pytest.mark.parametrize("breaks", _BREAKS, ids=", ".join)
def test_a_transaction_survives_a_break_at_every_statement(
    breaks: Sequence[Break], run: Run, proxy: WireProxy, databases: Databases
) -> None:
    once(run, 0)
    proxy.arm(None)
    once(run, 1)
    boundaries = proxy.count()
    assert boundaries >= LEAST_BOUNDARIES
    for point in range(1, boundaries + 1):
        how = breaks[point % len(breaks)]
        run.history.note(Fault(kind=how, target=f"statement {point} of {boundaries}"))
        proxy.arm(point, how)
        once(run, point + 1)
    proxy.arm(None)
    verdict = check(run.finish())
    brokers = dict(zip(("broker-1", "broker-2"), databases.broker_urls, strict=True))
    assert not verdict.anomalies, str(verdict)
    assert audit(databases.coordinator_url, brokers) == []
    assert sum(verdict.faults[how] for how in breaks) == boundaries
    # All is answered in the end, so what was cut off was begun again and not given up.
    assert verdict.count("end") >= boundaries
    assert sum(verdict.count(kind, "info") for kind in ("produce", "end", "ack", "begin")) > 3


def set_up(engine: Engine) -> TxnID:
    """A topic with a log and a subscription; answers a transaction that holds both."""
    engine.topics.create(_TOPIC, TopicSettings(partitions=2, segment_max_messages=4))
    engine.subscriptions.create(_WORK, SubscriptionSettings())
    for number, partition in enumerate(_PARTITIONS):
        for sequence in range(3):
            engine.produce(partition, batch("a", "b", "c"), producer_name="p", sequence_id=sequence)
        if number == 0:
            assert len(engine.log.fetch(partition).messages) == 9
    txn = engine.coordinator.open(owner="alice").txn_id
    engine.produce(_PARTITIONS[1], batch("held"), txn_id=txn)
    message = engine.receive(_WORK, "c1", max_messages=1)[0]
    engine.acknowledge(_WORK, "c1", [message.message_id], txn_id=txn)
    return txn


def operations(engine: Engine) -> list[Callable[[], object]]:
    """What operators do to a topic until it is gone."""
    first = _PARTITIONS[0]
    grown = TopicSettings(partitions=4, segment_max_messages=4)
    return [
        lambda: engine.topics.create(_TOPIC, grown),
        lambda: engine.subscriptions.delete(_WORK, force=True),
        lambda: engine.partitions.take_offline(first, reason="test"),
        lambda: engine.partitions.truncate(first, 4),
        lambda: engine.partitions.bring_online(first),
        lambda: engine.produce(PartitionName(_TOPIC, 3), batch("new")),
        lambda: engine.topics.delete(_TOPIC, force=True),
        engine.topics.finish_deletions,
        engine.apply_retention,
    ]


@pytest.mark.parametrize("breaks", _BREAKS, ids=", ".join)
def test_operations_survive_a_break_at_every_statement(
    breaks: Sequence[Break], run: Run, proxy: WireProxy, databases: Databases
) -> None:
    """Topics that grow, are truncated and deleted: nothing is left of them, and what a transaction
    had in them keeps it from nothing. Each operation is broken at its first statement, then each at
    its second, and so on, and is insisted on."""
    engine, point, boundaries = run.engine, 0, [0]
    while point <= max(boundaries):
        txn = set_up(engine)
        passed = []
        for turn, operation in enumerate(operations(engine), point):
            proxy.arm(point or None, breaks[turn % len(breaks)])
            with contextlib.suppress(TopicNotFound, SubscriptionNotFound):  # its answer was lost
                insisting(operation)
            passed.append(proxy.count())
        boundaries = boundaries if point else passed
        proxy.arm(None)
        engine.apply_retention()  # A sweep that was broken leaves the rest to the next one.
        engine.coordinator.end(txn, TxnAction.COMMIT)
        for tc_id in engine.finalizer.due():
            engine.finalizer.finalize(tc_id)
        assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED, point
        assert left_of_it(databases) == [], point
        point += 1
    assert sum(boundaries) >= LEAST_BOUNDARIES
    assert engine.inspect.check_invariants() == 0


def left_of_it(databases: Databases) -> list[object]:
    """Rows of the topic, or of the deletion."""
    found: list[object] = []
    for url in databases.broker_urls:
        with psycopg.connect(url) as connection:
            for table in ("partition", "subscription"):
                found += connection.execute(
                    sql.SQL("SELECT * FROM broker.{} WHERE topic = %s").format(
                        sql.Identifier(table)
                    ),
                    [str(_TOPIC)],
                ).fetchall()
            for table in ("entry", "segment", "partition_live", "cursor", "pending_ack"):
                found += connection.execute(
                    sql.SQL(
                        "SELECT {0}, partition_id FROM broker.{1} WHERE partition_id NOT IN"
                        " (SELECT partition_id FROM broker.partition) LIMIT 3"
                    ).format(sql.Literal(table), sql.Identifier(table))
                ).fetchall()
    with psycopg.connect(databases.coordinator_url) as connection:
        found += connection.execute("SELECT * FROM coordinator.dropped_topic").fetchall()
    return found


def test_the_proxy_breaks_the_statement_that_was_chosen(
    proxy: WireProxy, databases: Databases
) -> None:
    url = psycopg.conninfo.make_conninfo(databases.coordinator_url, host=str(proxy.directory))
    for how, kept in ((Break.BEFORE, 1), (Break.AFTER, 2), (Break.DEADLOCK, 1)):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS public.proxied")
            connection.execute("CREATE TABLE public.proxied (n integer)")
            proxy.arm(2, how)
            connection.execute("INSERT INTO public.proxied VALUES (%s)", [1])
            with pytest.raises(psycopg.OperationalError):
                connection.execute("INSERT INTO public.proxied VALUES (%s)", [2])
        with psycopg.connect(databases.coordinator_url) as connection:
            assert connection.execute("SELECT count(*) FROM public.proxied").fetchone() == (kept,)
            connection.execute("DROP TABLE public.proxied")

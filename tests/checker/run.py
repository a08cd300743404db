"""Clients, workers and faults on an engine, until told to stop; then everything is ended and read.

Threads make no two runs alike. A run is repeatable as far as its choices go (one seed), and its
history is kept, so that what the checker says can be looked at again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar
from unittest.mock import patch

import msgspec
import psycopg

from engine import Engine
from engine.buffer.recovery import recover
from engine.model import dispatch
from engine.model.errors import EngineError
from engine.model.subscription import SubscriptionSettings, SubscriptionType
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.postgres.database import Database
from tests.checker.delivery_checks import LEASES_END, OPERATOR
from tests.checker.engine_target import EngineTarget
from tests.checker.history import Fault, History, Look, Overdue
from tests.checker.network import CALM, Network, Target, Trouble
from tests.checker.operators import Operators
from tests.checker.simulation import Running
from tests.checker.workload import Client, Common, Setting, last_reads
from tests.engine.support import lose_derived_state, sql, unreachable

_T = TypeVar("_T")
PATIENCE = 60.0
_NEXT = "SELECT tc_id, next_sequence FROM coordinator.coordinator"
#: Short enough for consumers to take turns, long enough for one to do something in its own.
_LEASE_MS = 1_000
#: So short that a consumer is often taken to be gone between two of its calls, and its keys move.
_PRESENCE_MS = 100


@dataclass
class Run:
    """One engine under test, directly or, with a ``target``, through a server on its databases.

    Attributes:
        stopping: clients and workers end when it is set.
        failures: what no client may ever see, such as an error that is not the engine's.
    """

    engine: Engine
    setting: Setting
    seed: int = 0
    trouble: Trouble = field(default_factory=Trouble)
    target: Target | None = None
    history: History = field(default_factory=History)
    stopping: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self._asked = self.target or EngineTarget(self.engine, self.setting.sidecars)
        self.network = Network(self._asked, self.history, Random(self.seed + 1), self.trouble)
        self._common = Common()
        self.operators = Operators(self.engine, self.setting)
        self._whim = Random(f"{self.seed}/operators")
        # What earlier runs have opened is none of this history.
        self._from = dict(self._coordinator(_NEXT))
        log, joining = self.engine.log, self.engine._joining
        setattr(log, "append", self._dawdling(log.append))  # noqa: B010 - of this object alone
        # An acknowledgement asks the coordinator in its midst, and claims then.
        setattr(joining, "subscription", self._lingering(joining.subscription))  # noqa: B010

    def _dawdling(self, call: Callable[..., _T]) -> Callable[..., _T]:
        """Now and then a request is on its way from the coordinator to the broker for a while,
        and an operator's from the loss of a partition's state to its rebuilding."""

        def later(*arguments: object, **named: object) -> _T:
            self._dawdle()
            return call(*arguments, **named)

        return later

    def _lingering(self, call: Callable[..., _T]) -> Callable[..., _T]:
        """As :meth:`_dawdling`, of a call whose answer is on its way."""

        def later(*arguments: object, **named: object) -> _T:
            answer = call(*arguments, **named)
            self._dawdle()
            return answer

        return later

    def _dawdle(self) -> None:
        if self.rng.random() < self.trouble.dawdling:
            self.stopping.wait(0.1)

    @contextlib.contextmanager
    def working(self, clients: int = 4, workers: int = 2) -> Iterator[None]:
        """Clients and workers at work during the block; waits until they have stopped."""
        threads = [self._client(number) for number in range(clients)]
        threads += [self._worker(number) for number in range(workers)]
        with patch("engine.coordinator.partitions.recover", self._dawdling(recover)):
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self.stopping.set()
                for thread in threads:
                    thread.join(PATIENCE)
        if any(thread.is_alive() for thread in threads):
            raise AssertionError("a client or a worker hangs")
        if self.failures:
            raise self.failures[0]

    def operations(self, more: int) -> None:
        """Wait until so many more operations have been answered, or somebody has failed."""
        before = len(self.history)
        while len(self.history) < before + more and not self.failures:
            if not self.history.wait_for(1, PATIENCE):
                raise AssertionError("nothing is answered any more")

    # -- faults that need no server to be killed ---------------------------------------

    def pass_a_deadline(self) -> None:
        """Let the deadline of one open transaction pass, as a jump of the clock would."""
        rows = self._coordinator(
            "SELECT tc_id, sequence FROM coordinator.transaction WHERE status = 'OPEN'"
            " ORDER BY random() LIMIT 1"
        )
        for tc_id, sequence in rows:
            self.history.note(Overdue(txn=f"{tc_id}:{sequence}"))
            self._coordinator(
                "UPDATE coordinator.transaction"
                " SET deadline = clock_timestamp() - interval '1 ms'"
                " WHERE status = 'OPEN' AND (tc_id, sequence) = (%s, %s)",
                tc_id,
                sequence,
            )

    def time_consumers_out(self) -> None:
        """Let everything in flight be delivered again, and whoever was alone lose the lease."""
        with self.history.during(Fault(kind=LEASES_END)):
            for database in self.engine._brokers:
                insisting(lambda database=database: _time_out(database))

    def lose_state(self) -> None:
        """Empty what PostgreSQL empties after a crash, on every broker, while all are at work."""
        with (
            self.history.during(Fault(kind="derived state lost")),
            contextlib.suppress(psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable),
        ):
            lose_derived_state(self.engine)

    def lose_a_broker(self) -> None:
        """One broker cannot be reached for a while; what was on its way arrives all the same."""
        name = self.rng.choice(list(self.engine._brokers.names))
        fault = Fault(kind="broker out of reach", target=name)
        with self.history.during(fault), unreachable(self.engine, name):
            self.operations(20)

    def cut_connections(self) -> None:
        """End every connection of the engine to one database, whatever it is doing."""
        databases = [self.engine.database, *self.engine._brokers]
        database = self.rng.choice(databases)
        self.history.note(Fault(kind="connections cut", target=database.name))
        sql(
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND application_name LIKE 'txnconsole%%'",
        )

    def operate(self, *among: str) -> None:
        """Let an operator do one of what is lawful beside clients, or of ``among`` it."""
        name = self._whim.choice(among or tuple(self.operators.calls))
        partition = PartitionName.parse(self._whim.choice(self.setting.partitions))
        with self.history.during(Fault(kind=f"{OPERATOR}{name}", target=str(partition))):
            insisting(lambda: self.operators.calls[name](partition))

    # -- the end -----------------------------------------------------------------------

    def finish(self) -> History:
        """End every transaction, deliver what was late, and read everything there is."""
        self.end_everything()
        self.network.deliver_late()
        self.end_everything()
        quiet = Network(self._asked, self.history, Random(0), CALM)
        for txn in insisting(self._issued):
            quiet.send("last", Look(txn=txn, final=True))
        self.time_consumers_out()
        for requests in last_reads(self.setting):
            reader = Running(requests, "last")
            while reader.step(quiet):
                pass
        return self.history

    def end_everything(self) -> None:
        """Rebuild what a crash has emptied; carry out all that is decided; abort what is open."""
        insisting(self.engine.take_snapshots)
        self.history.note(Overdue())
        insisting(
            lambda: self._coordinator(
                "UPDATE coordinator.transaction SET deadline = opened_at WHERE status = 'OPEN'"
            )
        )
        insisting(self.engine.coordinator.expire)
        for _ in range(5):
            insisting(
                lambda: self._coordinator(
                    "UPDATE coordinator.transaction SET next_attempt_at = clock_timestamp()"
                    " WHERE next_attempt_at IS NOT NULL"
                )
            )
            for tc_id in insisting(self.engine.finalizer.due):
                insisting(lambda tc_id=tc_id: self.engine.finalizer.finalize(tc_id))

    def _issued(self) -> list[str]:
        """All of this history's, archived ones too: ids have no gaps."""
        return [
            f"{tc_id}:{sequence}"
            for tc_id, beyond in self._coordinator(_NEXT)
            for sequence in range(self._from.get(tc_id, 0), beyond)
        ]

    def _coordinator(self, statement: str, *params: object) -> Sequence[tuple[int, int]]:
        return sql(self.engine.database, statement, *params)

    # -- threads -----------------------------------------------------------------------

    def _client(self, number: int) -> threading.Thread:
        rng = Random(f"{self.seed}/{number}")
        client = Client(f"c{number}", self.setting, self._common, rng)

        def work() -> None:
            running = Running(client.run(), f"c{number}")
            while not self.stopping.is_set():
                running.step(self.network)

        return self._thread(work)

    def _worker(self, number: int) -> threading.Thread:
        """What a worker process does, and sometimes nothing for a while."""
        rng = Random(f"{self.seed}/worker{number}")
        engine = self.engine

        def step() -> None:
            engine.coordinator.expire()
            for tc_id in engine.finalizer.due():
                engine.finalizer.finalize(tc_id)
            engine.take_snapshots()
            engine.apply_retention()
            engine.sample_positions()

        def work() -> None:
            while not self.stopping.is_set():
                with contextlib.suppress(EngineError):  # it says "try again", and so it does
                    step()
                self.stopping.wait(0.2 if rng.random() < 0.05 else 0.01)

        return self._thread(work)

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as failure:  # reported by the main thread
                self.failures.append(failure)
                self.stopping.set()

        return threading.Thread(target=guarded, daemon=True)


def _time_out(database: Database) -> None:
    """As if the time had come, under the locks: others are at work."""
    with database._connections.lent() as connection, connection.transaction():
        connection.execute("UPDATE broker.subscription SET consumer_until = 'epoch'")
        connection.execute(
            "SELECT FROM broker.cursor ORDER BY subscription_id, partition_id FOR UPDATE"
        )
        for row in connection.execute("SELECT * FROM broker.dispatch").fetchall():
            state = dispatch.decode(row.state, -1)
            late = tuple(msgspec.structs.replace(one, deadline_ms=0) for one in state.deliveries)
            gone = dict.fromkeys(state.present, 0)
            connection.execute(
                "UPDATE broker.dispatch SET next_deadline = 'epoch', state = %s"
                " WHERE subscription_id = %s AND partition_id = %s",
                (
                    dispatch.encode(msgspec.structs.replace(state, deliveries=late, present=gone)),
                    row.subscription_id,
                    row.partition_id,
                ),
            )


def insisting(call: Callable[[], _T], attempts: int = 60) -> _T:
    """Repeat a call while the engine, or a server that is being restarted, allows it."""
    for _ in range(attempts - 1):
        try:
            return call()
        except psycopg.OperationalError:  # of the test's own statements, which nobody translates
            threading.Event().wait(0.05)
        except EngineError as error:
            if not error.retryable:
                raise
            threading.Event().wait(0.05)
    return call()


def furnish(engine: Engine, namespace: str = "soak") -> Setting:
    """Topics of both buffers on both brokers, in small segments, and subscriptions of all types."""
    topics = {name: TopicName("test", namespace, name) for name in ("orders", "output", "sidecar")}
    for name, topic in topics.items():
        buffer = BufferKind.SIDECAR if name == "sidecar" else BufferKind.MARKER
        layout = TopicSettings(partitions=2, segment_max_messages=40, buffer=buffer)
        engine.topics.create(topic, layout)
    worked = [SubscriptionName(topics[name], "work") for name in ("orders", "sidecar")]
    for subscription in worked:
        engine.subscriptions.create(subscription, SubscriptionSettings())
    by_key = SubscriptionName(topics["orders"], "by-key")
    come_and_go = SubscriptionSettings(
        type=SubscriptionType.KEY_SHARED, consumer_lease_ms=_PRESENCE_MS
    )
    engine.subscriptions.create(by_key, come_and_go)
    alone = {
        SubscriptionName(topics["output"], "failover"): SubscriptionType.FAILOVER,
        SubscriptionName(topics["orders"], "exclusive"): SubscriptionType.EXCLUSIVE,
    }
    for subscription, kind in alone.items():
        settings = SubscriptionSettings(type=kind, consumer_lease_ms=_LEASE_MS)
        engine.subscriptions.create(subscription, settings)
    return Setting(
        partitions=[f"{topic}:{number}" for topic in topics.values() for number in (0, 1)],
        subscriptions=[f"{name.topic}|{name.name}" for name in (*worked, by_key, by_key)],
        cumulative=[f"{name.topic}|{name.name}" for name in alone],
        lease_ms=_LEASE_MS,
        keyed=frozenset({f"{by_key.topic}|{by_key.name}"}),
        sidecars=frozenset({str(topics["sidecar"])}),
        timeouts_ms=(60_000, 60_000, 60_000, 300, 60),
    )

"""The engine as one object: its parts, put together, and the databases that it owns."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial

from engine import tracing
from engine.buffer.recovery import recover
from engine.buffer.sidecar import SidecarLogs
from engine.buffer.snapshots import Snapshots
from engine.coordinator.archive import Archive
from engine.coordinator.continuity import Continuity
from engine.coordinator.coordinator import Coordinator
from engine.coordinator.figures import Figures
from engine.coordinator.finalization import Finalizer
from engine.coordinator.groups import Groups
from engine.coordinator.joining import Joining
from engine.coordinator.partitions import PartitionOperations
from engine.coordinator.reconciliation import Reconciliation
from engine.coordinator.recovery import CoordinatorRecovery
from engine.coordinator.remedies import Remedies
from engine.coordinator.scaling import CoordinatorCount
from engine.coordinator.statements import FILES
from engine.coordinator.subscriptions import SubscriptionOperations
from engine.inspect.inspector import Inspector
from engine.log.brokers import Brokers
from engine.log.cluster import join
from engine.log.partition_log import PartitionLogs
from engine.log.retention import Retention
from engine.log.retry import retry_if_recreated
from engine.log.time_budget import TimeBudget
from engine.log.topics import Topics
from engine.model.errors import (
    CoordinatorUnavailable,
    InvalidTxnStatus,
    TransactionConflict,
)
from engine.model.figures import FigureName
from engine.model.message import MessageID, NewMessage, StoredMessage
from engine.model.partition import Appended
from engine.model.subscription import AckAnswer, AckType
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.health import problem_of
from engine.postgres.migrations import migrate
from engine.settings import EngineSettings
from engine.subscription.acks import Acknowledgements
from engine.subscription.arrivals import Arrivals
from engine.subscription.cursors import Cursors
from engine.subscription.dead_letters import DeadLetters
from engine.subscription.delivery import Delivery
from engine.subscription.ids_by_broker import IdsByBroker
from engine.subscription.leases import Leases
from engine.subscription.ledgers import Ledgers
from engine.subscription.records import Records
from engine.subscription.redelivery import Redelivery
from engine.subscription.seeking import Seeking
from engine.subscription.subscriptions import Subscriptions

_KEPT_SAMPLES = timedelta(days=2)


class Engine:
    """Transactions over the coordinators' database and the brokers' (semantics §1).

    Thread-safe; make one per process, after forking. Connections are opened when they are needed.

    Its own methods are what producers, consumers and workers call all the time, whichever parts
    that takes, and what concerns all databases. Everything else is asked of the part whose business
    it is, such as ``engine.topics`` or ``engine.coordinator``.

    Whatever asks a database may raise CoordinatorUnavailable or PartitionUnavailable, when that
    cannot be reached, TimeLimitExceeded, and InvalidRequest for a value that it cannot store;
    whatever is about a topic, a partition or a subscription TopicNotFound, PartitionNotFound or
    SubscriptionNotFound. ``Raises:`` of a method here and in the parts tells what else there is,
    and where these mean more.

    Args:
        coordinator_url: libpq connection string of the coordinators' database.
        broker_urls: libpq connection strings by broker name.
    """

    def __init__(
        self,
        coordinator_url: str,
        broker_urls: Mapping[str, str],
        settings: EngineSettings | None = None,
    ) -> None:
        self.settings = settings or EngineSettings()
        self._urls = {"coordinator": coordinator_url, **broker_urls}

        self._brokers = Brokers(broker_urls, self.settings)
        self.continuity = Continuity(self._brokers)
        #: The coordinators' database, for callers who keep tables of their own in it.
        self.database = Database(
            "coordinator",
            coordinator_url,
            files=FILES,
            unavailable=CoordinatorUnavailable,
            pool_size=self.settings.pool_size,
            statement_timeout_ms=self.settings.statement_timeout_ms,
            admit=self.continuity.vouch,
        )

        self.topics = Topics(self.database, self._brokers)
        self._snapshots = Snapshots(self._brokers, self.settings)
        self._retention = Retention(self._brokers, self.settings)
        self._sidecars = SidecarLogs(self._brokers)
        self.log = PartitionLogs(
            self.topics,
            self._brokers,
            self.settings,
            recover=recover,
            take_snapshot=self._snapshots.take_first,
        )

        self.figures = Figures(self.database)
        self._coordinator_count = CoordinatorCount(self.database)
        self._joining = Joining(self.database, self.topics)
        self.coordinator = Coordinator(
            self.database, self._joining, self.settings, self._coordinator_count
        )
        self.groups = Groups(self.database)
        self.archive = Archive(self.database, self.settings)
        self.finalizer = Finalizer(self.database, self.topics, self._brokers)
        self.recovery = CoordinatorRecovery(self.database, self.coordinator, self.finalizer)

        records = Records(self.topics, self._brokers)
        self.subscriptions = Subscriptions(self.topics, self._brokers, records, recover)
        ids_by_broker = IdsByBroker(self.topics, self._brokers)
        cursors = Cursors(records, recover)
        leases = Leases(records, cursors)
        ledgers = Ledgers()
        self._dead_letters = DeadLetters(self.topics, self._brokers, self.log, cursors)
        self._delivery = Delivery(
            self.topics,
            self._brokers,
            self.settings,
            cursors=cursors,
            leases=leases,
            dead_letters=self._dead_letters,
        )
        self._redelivery = Redelivery(
            self.topics,
            self._brokers,
            cursors=cursors,
            ids_by_broker=ids_by_broker,
            leases=leases,
            ledgers=ledgers,
        )
        self.arrivals = Arrivals(self.topics, self._brokers, self.log, cursors)
        self._acks = Acknowledgements(
            ids_by_broker, cursors, leases, ledgers, confirm=self._joining.confirm_ack
        )

        self.remedies = Remedies(self.database, self.coordinator, self._joining, self._brokers)
        self.reconciliation = Reconciliation(
            self.database, self.coordinator, self.remedies, self._brokers, self.continuity
        )
        self.partitions = PartitionOperations(self.log, self.coordinator, self._snapshots)
        self.subscription_operations = SubscriptionOperations(
            Seeking(self.topics, self._brokers, cursors),
            self.coordinator,
            self.remedies,
        )
        self.inspect = Inspector(
            self.database,
            self.coordinator,
            self.topics,
            self.log,
            self._brokers,
            settings=self.settings,
        )

    def close(self) -> None:
        """Close every connection, once what has been counted is written."""
        self.finalizer.close()
        self.figures.write()
        self.database.close()
        self._brokers.close()

    def migrate(self, *, anew: Collection[str] = ()) -> list[str]:
        """Bring all databases up to date, make the coordinators, and let brokers join them;
        idempotent, concurrent-safe.

        Args:
            anew: brokers that begin again with an empty database, their own being lost.

        Returns:
            What has been done, and not done of what was asked for, each as ``database: step``.

        Raises:
            SchemaIsNewer: a later version has done it.
            PartitionUnavailable: there is no broker of a name in ``anew``.
        """
        for name in anew:
            self._brokers.get(name)
        applied = []
        for name, url in self._urls.items():
            kind = "coordinator" if name == "coordinator" else "broker"
            applied += [f"{name}: {step}" for step in migrate(url, kind)]
        # Brokers that have not joined yet have nothing to compare the coordinators with.
        with self.database.as_it_is():
            self._coordinator_count.at_least(self.settings.coordinators)
            for broker in self._brokers:
                if join(self.database, broker, anew=broker.name in anew):
                    applied.append(f"{broker.name}: has become a broker")
                elif broker.name in anew:
                    step = "not begun anew, its database has been a broker's"
                    applied.append(f"{broker.name}: {step}")
        return applied

    def ping(self) -> dict[str, str | None]:
        """Ask every database whether it serves requests, takes writes, cannot lose in a crash what
        it has acknowledged, and is the one that is meant.

        Returns:
            By database name, None when all is well, else what is wrong.
        """
        look = partial(problem_of, careful=not self.settings.unsafe_databases)
        answers = {self.database.name: look(self.database, "coordinator")}
        return answers | {broker.name: look(broker, "broker") for broker in self._brokers}

    @retry_if_recreated
    def produce(
        self,
        partition: PartitionName,
        messages: Sequence[NewMessage],
        *,
        txn_id: TxnID | None = None,
        owner: str | None = None,
        producer_name: str | None = None,
        sequence_id: int | None = None,
    ) -> Appended:
        """Append one batch. In a transaction its coordinator is asked first: it must say OPEN, and
        the partition is registered with it (the strict fence, semantics §4).

        Raises:
            TransactionNotFound, InvalidTxnStatus: not there, not ``owner``'s, or not OPEN.
            Otherwise as :meth:`engine.log.partition_log.PartitionLogs.append`.
        """
        with tracing.span("produce", txn_id=txn_id, partition=partition, messages=len(messages)):
            joined = None
            if txn_id is not None:
                joined = self._joining.partition(txn_id, partition, owner=owner)
            try:
                return self.log.append(
                    partition,
                    messages,
                    txn_id=txn_id,
                    producer_name=producer_name,
                    sequence_id=sequence_id,
                    joined=joined,
                )
            except InvalidTxnStatus as refused:
                self._tell_status(refused, txn_id)
                raise

    def receive(
        self, name: SubscriptionName, consumer: str, *, max_messages: int = 100
    ) -> tuple[StoredMessage, ...]:
        """Deliver messages; see :meth:`engine.subscription.delivery.Delivery.receive`."""
        return self._delivery.receive(name, consumer, max_messages=max_messages)

    def nack(self, name: SubscriptionName, consumer: str, message_ids: Sequence[MessageID]) -> None:
        """Give messages back; see :meth:`engine.subscription.redelivery.Redelivery.nack`."""
        self._redelivery.nack(name, consumer, message_ids)

    def leave(self, name: SubscriptionName, consumer: str) -> None:
        """A consumer goes; see :meth:`engine.subscription.redelivery.Redelivery.leave`."""
        self._redelivery.leave(name, consumer)

    @retry_if_recreated
    def acknowledge(
        self,
        name: SubscriptionName,
        consumer: str,
        message_ids: Sequence[MessageID],
        *,
        ack_type: AckType = AckType.INDIVIDUAL,
        txn_id: TxnID | None = None,
        owner: str | None = None,
    ) -> AckAnswer:
        """Acknowledge messages. In a transaction its coordinator is asked before anything is
        recorded, as in :meth:`produce`.

        Raises:
            TransactionNotFound, InvalidTxnStatus: not there, not ``owner``'s, or not OPEN.
            Otherwise as :meth:`engine.subscription.acks.Acknowledgements.acknowledge`.
        """
        try:
            with tracing.span(
                "acknowledge", txn_id=txn_id, subscription=name, messages=len(message_ids)
            ):
                join = None
                if txn_id is not None:
                    highest = max((each.partition for each in message_ids), default=0)
                    join = partial(
                        self._joining.subscription, txn_id, name, owner=owner, partition=highest
                    )
                return self._acks.acknowledge(
                    name, consumer, message_ids, ack_type=ack_type, txn_id=txn_id, join=join
                )
        except TransactionConflict:
            self.figures.count(FigureName.PENDING_ACK_CONFLICTS)
            raise
        except InvalidTxnStatus as refused:
            self._tell_status(refused, txn_id)
            raise

    def take_snapshots(self, *, seconds: float = math.inf) -> int:
        """Snapshot the buffers that are due; the workers call this every second.

        Args:
            seconds: as in :meth:`apply_retention`.

        Returns:
            How many snapshots were taken.
        """
        return self._snapshots.sweep(TimeBudget(seconds))

    def move_dead_letters(self) -> int:
        """Finish moves to dead-letter topics that were interrupted; the workers call this every few
        seconds.

        Returns:
            How many messages have arrived.
        """
        return self._dead_letters.sweep()

    def apply_retention(self, *, seconds: float = math.inf) -> int:
        """Drop what is past its retention, sweep and compact the sidecar logs, and go on with
        deletions of topics that were interrupted; the workers call this every few seconds.

        Args:
            seconds: after so long no further step is begun, but one of each kind of work on each
                broker; what is left is the next call's.

        Returns:
            How many entries were deleted.
        """
        parts = TimeBudget(seconds).split(3)
        deleted = self._sidecars.sweep(next(parts)) + self._retention.sweep(next(parts))
        self.topics.finish_deletions(next(parts))
        return deleted

    def sample_positions(self) -> int:
        """Record where each partition stands, if it moved; the workers call this every second."""

        def work(database: Database) -> int:
            with database.session() as session:
                session.run("trim_samples", keep=_KEPT_SAMPLES)
                return session.run("sample_positions")

        return self._brokers.on_each(work)

    def _tell_status(self, refused: InvalidTxnStatus, txn_id: TxnID | None) -> None:
        """Add the transaction's status to a participant's refusal: the participant knows that the
        transaction has ended, only the coordinator knows how.

        Raises:
            CoordinatorUnavailable: the coordinator cannot be asked.
        """
        if txn_id is not None and "current_status" not in refused.data:
            refused.data["current_status"] = str(self.coordinator.get(txn_id).status)

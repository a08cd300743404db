"""The questions of operators as one object. Each question is answered in a module of its own."""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import datetime, timedelta

from engine.coordinator.coordinator import Coordinator
from engine.inspect import (
    blockers,
    history,
    impact,
    participants,
    positions,
    signs,
)
from engine.inspect.blockers import Blocker, HeldBack
from engine.inspect.hanging import CrossCheck, HangingPage
from engine.inspect.history import Position, Span
from engine.inspect.impact import Impact
from engine.inspect.invariants import BUDGET, Invariants, InvariantState, Report
from engine.inspect.lists import Lists
from engine.inspect.participants import Atomicity
from engine.inspect.positions import Extent
from engine.inspect.reading import Reading
from engine.inspect.rehearsal import Rehearsal, rehearse
from engine.inspect.signs import AllStrandedLetters, LateSnapshots, RecentEnds
from engine.inspect.spans import with_acks, with_spans
from engine.inspect.standing import Standing, standing
from engine.inspect.transactions import TransactionQuestions
from engine.inspect.visibility import Explainer, Explanation
from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.log.partition_log import PartitionLogs
from engine.log.rows import partition_of
from engine.model.hanging import Patience
from engine.model.message import Isolation, MessageID
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from engine.postgres.database import Database
from engine.settings import EngineSettings

_PATIENCE = Patience()


class Inspector:
    """Answers from the coordinators' and the brokers' databases, joined here and not in SQL.

    Args:
        database: the coordinators'.
    """

    def __init__(
        self,
        database: Database,
        coordinator: Coordinator,
        topics: Catalog,
        log: PartitionLogs,
        brokers: Brokers,
        *,
        settings: EngineSettings,
    ) -> None:
        self._database = database
        self._coordinator = coordinator
        self._topics = topics
        self._log = log
        self._settings = settings
        self._reading = Reading(topics, log, brokers)
        self.transactions = TransactionQuestions(self._reading, database, coordinator, log)
        self._invariants = Invariants(self._reading, database)
        self.lists = Lists(self._reading, topics)

    def held_back(self, limit: int = 10) -> HeldBack:
        """The partitions with the most hidden offsets, over all brokers."""
        return blockers.held_back(self._reading, limit)

    def blockers(
        self, partition: PartitionName, limit: int = 50, *, above: int = -1
    ) -> tuple[Blocker, ...]:
        """The ongoing transactions that begin above an offset, in the order in which they hold the
        stable position.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable, CoordinatorUnavailable.
        """
        return blockers.blockers(self._reading, self._coordinator, partition, limit, above)

    def impact(self, txn_id: TxnID, action: TxnAction) -> Impact:
        """What ending a transaction would do to every participant.

        Raises:
            TransactionNotFound: there is none.
            InvalidTxnStatus: it has been ended the opposite way.
        """
        return impact.impact(self._reading, self._database, self._coordinator.get(txn_id), action)

    def impacts(
        self, transaction: Transaction, actions: Collection[TxnAction]
    ) -> dict[TxnAction, Impact]:
        """As :meth:`impact`, for several actions at once.

        Raises:
            InvalidTxnStatus: it has been ended the opposite way of one of them.
        """
        return impact.impacts(self._reading, self._database, transaction, actions)

    def expiry(self, txn_id: TxnID) -> Impact:
        """What a transaction's deadline would do to every participant.

        Raises:
            TransactionNotFound: there is none.
            InvalidTxnStatus: it is not OPEN.
        """
        return impact.expiry(self._reading, self._database, self._coordinator.get(txn_id))

    def position_at_offset(self, partition: PartitionName, offset: int) -> Position:
        """The positions of a partition when an offset was its last one, and who held them there.

        Raises:
            MessageNotFound: below the log's start, or beyond its end.
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return history.at_offset(self._reading, partition, offset)

    def position_at(self, partition: PartitionName, at: datetime) -> Position:
        """The positions of a partition at a moment, and who held them there.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return history.at_moment(self._reading, partition, at)

    def entry(self, partition: PartitionName, offset: int) -> Extent | None:
        """The entry that holds an offset, also of a partition that is offline; None when none does.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return positions.entry_at(self._reading, partition, offset)

    def open_before(self, partition: PartitionName, start: int, end: int) -> dict[TxnID, int]:
        """Transactions that were open when the offset ``start`` was appended, with their first
        offsets, as far as they matter to readers up to the offset ``end``.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return history.open_before(self._reading, partition, start, end)

    def positions(
        self,
        partition: PartitionName,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        back: timedelta = history.HOUR,
        limit: int = 500,
    ) -> Span:
        """The positions of a partition over a while: until ``until`` or now, from ``since`` or
        ``back`` before that.

        Raises:
            InvalidRequest: the range is empty.
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        limit = min(limit, history.MAX_POINTS)
        return history.between(
            self._reading, partition, since=since, until=until, back=back, limit=limit
        )

    def explain(
        self,
        partition: PartitionName,
        offset: int,
        isolation: Isolation = Isolation.READ_COMMITTED,
        subscription: SubscriptionName | None = None,
    ) -> Explanation:
        """Why a reader gets the message at an offset, or does not; with a subscription, also why
        its consumers get it or not.

        Raises:
            InvalidRequest: an impossible offset, or the subscription is another topic's.
            TopicNotFound, PartitionNotFound, SubscriptionNotFound: there is none.
            CoordinatorUnavailable: a transaction cannot be looked up.
        """
        explainer = Explainer(self._reading, self._coordinator, self._topics)
        return explainer.explain(partition, offset, isolation, subscription)

    def hanging(
        self,
        *,
        patience: Patience = _PATIENCE,
        limit: int = 50,
        cursor: str | None = None,
    ) -> HangingPage:
        """Transactions that hang, each with a remedy: a cross-check of coordinators, buffers and
        pending acks. A page may be short, even empty, and still have a cursor.

        Raises:
            InvalidRequest: the cursor is not one that this list has given.
            CoordinatorUnavailable: the check needs the coordinators.
        """
        check = CrossCheck(self._reading, self._coordinator, self._database, patience)
        return check.page(limit=limit, cursor=cursor)

    def participants(self, txn_id: TxnID) -> Atomicity:
        """What each participant of a transaction says of it, and whether they agree.

        Raises:
            TransactionNotFound: there is none.
        """
        return participants.atomicity(self._reading, self._coordinator.get(txn_id))

    def partitions_of(self, message_id: MessageID) -> list[PartitionName]:
        """The partitions that a message of that id can be in: at most one on each broker, because a
        message id names no topic. Brokers that do not answer are left out."""
        rows, _ = self._reading.on_each(
            "partitions_of_ledger", ledger_id=message_id.ledger_id, number=message_id.partition
        )
        return [partition_of(row) for found in rows.values() for row in found]

    def invariants(
        self, partition: PartitionName, *, position: int = 0, budget: int = BUDGET
    ) -> Report:
        """Check the invariants of semantics §8 in a partition, now: at most ``budget`` entries of
        its log from ``position`` on; the report tells where to go on.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return self._invariants.of_partition(partition, position=position, budget=budget)

    def index_invariants(self, partition: PartitionName, *, position: int = 0) -> Report:
        """As :meth:`invariants`, of the log and its aborted-transaction index alone.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return self._invariants.of_index(partition, position=position)

    def check_invariants(self, *, seconds: float = math.inf) -> int:
        """One bounded step of the continuous checks, from where the last one stopped; the workers
        call this every few seconds.

        Args:
            seconds: after so long the step begins nothing more; the next one goes on.

        Returns:
            How many checks found counter-examples.
        """
        return self._invariants.step(self._coordinator.number(), seconds=seconds)

    def invariant_state(
        self,
        *,
        broken: bool = False,
        part: str = "",
        limit: int = 50,
        cursor: str | None = None,
    ) -> InvariantState:
        """What the continuous checks have found so far, what is broken first; with ``broken`` only
        that.

        Args:
            part: a text, in lower case, that the subjects' names have in them.

        Raises:
            InvalidRequest: the cursor is not one that this list has given.
        """
        return self._invariants.state(broken=broken, part=part, limit=limit, cursor=cursor)

    def recent_ends(self, seconds: int, limit: int = signs.ENDS) -> RecentEnds:
        """How the newest ``limit`` transactions that ended within the last ``seconds`` have ended.

        Raises:
            CoordinatorUnavailable: the database cannot be reached.
        """
        return signs.recent_ends(self._database, seconds=seconds, limit=limit)

    def recovering(self) -> dict[int, int]:
        """The coordinators in recovery, with the milliseconds since it began.

        Raises:
            CoordinatorUnavailable: the database cannot be reached.
        """
        return signs.recovering(self._database)

    def late_snapshots(self, limit: int = 100) -> LateSnapshots:
        """The partitions whose changes have waited longest for a snapshot, over all brokers."""
        return signs.late_snapshots(self._reading, limit)

    def stranded_letters(self) -> AllStrandedLetters:
        """The dead letters whose topic has been deleted, by subscription.

        Raises:
            CoordinatorUnavailable: the catalog cannot be reached.
        """
        return signs.stranded_letters(self._reading, self._topics)

    def standing(self, *, one_by_one: bool = False) -> Standing:
        """The state of everything now, in a few figures; databases that do not answer are named.
        With ``one_by_one`` also figures of each partition and subscription."""
        return standing(
            self._database,
            tuple(self._reading.brokers),
            max_timeout_ms=self._settings.max_timeout_ms,
            one_by_one=one_by_one,
        )

    def rehearse(self, partition: PartitionName) -> Rehearsal:
        """What recovery of a partition would read if its database restarted now, and how long it
        would take.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return rehearse(self._reading, partition)

    def transaction(self, txn_id: TxnID, *, owner: str | None = None) -> Transaction:
        """A transaction, with what brokers know of it where it has not ended yet: offsets and
        counts. These are None where a broker cannot be reached.

        Raises:
            TransactionNotFound: there is none, or it is not ``owner``'s.
        """
        return self.beside_brokers(self._coordinator.get(txn_id, owner=owner))

    def beside_brokers(self, transaction: Transaction) -> Transaction:
        """A transaction that has just been read, completed as :meth:`transaction` answers it."""
        return with_acks(self._reading, with_spans(self._reading, self._log, transaction))

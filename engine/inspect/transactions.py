"""The questions of operators about transactions themselves, as one object."""

from __future__ import annotations

from collections.abc import Iterable

from engine.coordinator.coordinator import Coordinator
from engine.inspect import contents, holdings, timeouts
from engine.inspect.contents import Contents
from engine.inspect.holdings import Holding, JointEffect
from engine.inspect.lineage import Acknowledged, Lineage, acknowledged, lineage
from engine.inspect.positions import Position, Positions, positions, start
from engine.inspect.reading import Reading
from engine.inspect.timeline import Timeline, timeline
from engine.log.partition_log import PartitionLogs
from engine.model.timeout_advice import Advice
from engine.model.topic_name import PartitionName
from engine.model.transaction import PartitionParticipant, Transaction
from engine.model.txn_id import TxnID
from engine.postgres.database import Database


class TransactionQuestions:
    """Answers from the coordinators' and the brokers' databases. Each question is answered in a
    module of its own, and asks each database only once or a few times, however many transactions it
    is about."""

    def __init__(
        self, reading: Reading, database: Database, coordinator: Coordinator, log: PartitionLogs
    ) -> None:
        self._reading = reading
        self._database = database
        self._coordinator = coordinator
        self._log = log

    def holdings(self, txn_ids: Iterable[TxnID]) -> dict[TxnID, Holding]:
        """What each of some transactions takes part in, and holds.

        Raises:
            CoordinatorUnavailable: its database cannot be reached.
        """
        return holdings.holdings(self._reading, self._database, txn_ids)

    def positions(self, txn_ids: Iterable[TxnID]) -> Positions:
        """Transactions with their participants, and where they are in the logs in which they have
        not ended.

        Raises:
            CoordinatorUnavailable: its database cannot be reached.
        """
        return positions(self._reading, self._database, txn_ids)

    def start(self, partition: PartitionName, txn_id: TxnID) -> Position | None:
        """The first entry that a transaction has open in a partition, or in its sidecar log; None
        when it is not ongoing there.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return start(self._reading, partition, txn_id)

    def joint_effect(self, txn_ids: Iterable[TxnID]) -> JointEffect:
        """What aborting many transactions at once would change.

        Raises:
            CoordinatorUnavailable: its database cannot be reached.
        """
        return holdings.joint_effect(self._reading, self._database, txn_ids)

    def timeouts(self, *, max_timeout_ms: int) -> tuple[Advice, ...]:
        """Advice on the timeout of each owner, from a bounded sample of what ended last.

        Raises:
            CoordinatorUnavailable: its database cannot be reached.
        """
        return timeouts.timeout_advice(self._database, max_timeout_ms=max_timeout_ms)

    def timeline(self, transaction: Transaction) -> Timeline:
        """What happened when in a transaction, by participant.

        Raises:
            TransactionNotFound: there is none.
        """
        log = self._coordinator.log(transaction.txn_id)
        return timeline(self._reading, transaction, log)

    def lineage(self, transaction: Transaction) -> Lineage:
        """What a transaction consumed and produced, and the transactions before and after it, as
        far as records tell. ``transaction`` has to be completed with what brokers know
        (:meth:`engine.inspect.inspector.Inspector.transaction`)."""
        return lineage(self._reading, transaction)

    def acknowledged(self, transaction: Transaction) -> Acknowledged:
        """Which offsets a transaction acknowledged, as far as the pending-ack logs tell."""
        return acknowledged(self._reading, transaction)

    def messages(
        self,
        part: PartitionParticipant,
        txn_id: TxnID,
        *,
        from_offset: int | None = None,
        limit: int = 50,
    ) -> Contents:
        """A transaction's messages in one of its partitions, from an offset on.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
            SegmentUnreadable: one of them cannot be read back.
        """
        return contents.messages_of_txn(
            self._reading, self._log, part, txn_id, from_offset=from_offset, limit=limit
        )

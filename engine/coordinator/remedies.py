"""Remedies for transactions that hang (engine.model.hanging): a decision is carried out again on
every participant that still holds something of the transaction. A decision is never reversed.

Every step is one idempotent SQL transaction on one broker. A broker that is away delays only what
it has itself: the others are mended meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from engine.buffer.ending import end_if_online
from engine.coordinator.coordinator import Coordinator
from engine.coordinator.due import confirmed_acks
from engine.coordinator.joining import Joining
from engine.log.brokers import Brokers
from engine.log.rows import partition_of, subscription_of
from engine.model.errors import (
    EngineError,
    InvalidTxnStatus,
    PartitionNotFound,
    PartitionUnavailable,
    TimeLimitExceeded,
    TopicNotFound,
    TransactionNotFound,
)
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import EndCommand, Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus, action_of
from engine.postgres.database import Database
from engine.postgres.session import Row
from engine.subscription import ending

logger = structlog.get_logger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """What a retry found and did. ``replayed``: participants that held a decided transaction open.
    ``registered``: participants that held something of an open transaction, which did not list
    them."""

    transaction: Transaction
    replayed: tuple[str, ...] = ()
    registered: tuple[str, ...] = ()


class Remedies:
    """Operators' commands on transactions that hang."""

    def __init__(
        self, database: Database, coordinator: Coordinator, joining: Joining, brokers: Brokers
    ) -> None:
        self._database = database
        self._coordinator = coordinator
        self._joining = joining
        self._brokers = brokers

    def retry(self, txn_id: TxnID) -> Retried:
        """Help a transaction on now. When it is decided, the decision is carried out wherever the
        transaction is still open, whether that participant is registered or not, and the finalizer
        tries the rest at once. When it is OPEN, participants that hold something of it are
        registered, so that its end reaches them.

        Raises:
            TransactionNotFound: no coordinator knows it; use a forced abort for an orphan.
            InvalidTxnStatus: it is OPEN, and all its participants are registered.
            PartitionUnavailable, TimeLimitExceeded: a broker could not be asked, and on the others
                there was nothing to do.
        """
        transaction = self._coordinator.get(txn_id)
        action = action_of(transaction.status)
        if action is None:
            return self._register(transaction)
        with self._database.session() as session:
            confirmed = confirmed_acks(session, txn_id)
        command = EndCommand(
            txn_id=txn_id,
            action=action,
            confirmed=confirmed.get(txn_id, frozenset()),
        )
        replayed, fault = self._on_each(lambda database: _end_everything(database, command))
        with self._database.session() as session:
            session.run("retry_now", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
        if replayed:
            logger.warning(
                "decision replayed", txn_id=str(txn_id), action=action.value, participants=replayed
            )
        elif fault is not None:
            raise fault
        return Retried(transaction=self._coordinator.get(txn_id), replayed=tuple(replayed))

    def force_abort_acks(self, name: SubscriptionName, txn_id: TxnID) -> int:
        """Give back what an orphan holds of a subscription: a transaction that is unknown to its
        coordinator, or ABORTED.

        Returns:
            How many messages were given back.

        Raises:
            TransactionNotFound: it holds nothing of the subscription.
            InvalidTxnStatus: its coordinator says OPEN or committed; nothing was changed.
            PartitionUnavailable, TimeLimitExceeded: a broker could not be asked, and on the others
                it holds nothing.
        """
        status = self._status(txn_id)
        if status is not None and action_of(status) is not TxnAction.ABORT:
            raise InvalidTxnStatus(
                f"{txn_id} is {status}; its coordinator ends it, or a retry does.",
                current_status=status.value,
            )
        command = EndCommand(txn_id=txn_id, action=TxnAction.ABORT)
        given_back, fault = self._on_each(
            lambda database: [
                _end_acks(database, row, command)
                for row in _ack_holders(database, txn_id)
                if subscription_of(row) == name
            ]
        )
        if not given_back:
            raise fault or TransactionNotFound(f"{txn_id} holds nothing of {name}.")
        logger.warning("orphan's acknowledgements given back", name=str(name), txn_id=str(txn_id))
        return sum(given_back)

    def _register(self, transaction: Transaction) -> Retried:
        txn_id = transaction.txn_id
        partitions = {part.partition for part in transaction.partitions}
        subscriptions = {(part.subscription, part.broker) for part in transaction.subscriptions}
        found, fault = self._on_each(
            lambda database: (
                *map(partition_of, _spans(database, txn_id)),
                *((subscription_of(row), database.name) for row in _ack_holders(database, txn_id)),
            )
        )
        missing = [one for one in found if one not in partitions and one not in subscriptions]
        self._joining.forget(txn_id)
        new_partitions = [one for one in missing if isinstance(one, PartitionName)]
        new_subscriptions = dict.fromkeys(one[0] for one in missing if isinstance(one, tuple))
        joined = [self._joined(txn_id, one) for one in (*new_partitions, *new_subscriptions)]
        registered = tuple(str(one) for one in joined if one is not None)
        if not registered:
            raise fault or InvalidTxnStatus(
                f"{txn_id} is OPEN, and its participants are as they should be; end it first.",
                current_status=TxnStatus.OPEN.value,
            )
        logger.warning("participants registered", txn_id=str(txn_id), participants=registered)
        return Retried(transaction=self._coordinator.get(txn_id), registered=registered)

    def _joined(
        self, txn_id: TxnID, participant: PartitionName | SubscriptionName
    ) -> PartitionName | SubscriptionName | None:
        """Let a participant join; None: the catalog does not have its topic, or not so large. That
        is so in a copy from before it was made: what the broker has of it is deleted one day."""
        try:
            if isinstance(participant, PartitionName):
                self._joining.partitions(txn_id, [participant], owner=None)
            else:
                self._joining.subscriptions(txn_id, [participant], owner=None)
        except (TopicNotFound, PartitionNotFound) as error:
            logger.warning(
                "participant left out",
                txn_id=str(txn_id),
                participant=str(participant),
                reason=error.message,
            )
            return None
        return participant

    def _on_each(
        self, work: Callable[[Database], Sequence[_T]]
    ) -> tuple[list[_T], EngineError | None]:
        """Do something on every broker that answers; also answers why one does not."""
        done: list[_T] = []
        fault: EngineError | None = None
        for database in self._brokers:
            try:
                done += work(database)
            except (PartitionUnavailable, TimeLimitExceeded) as error:
                fault = error
                logger.warning("broker left out", broker=database.name, reason=error.message)
        return done, fault

    def _status(self, txn_id: TxnID) -> TxnStatus | None:
        try:
            return self._coordinator.get(txn_id).status
        except TransactionNotFound:
            return None


def _end_everything(database: Database, command: EndCommand) -> list[str]:
    """Carry out a decision wherever a transaction holds something open on a broker; answers the
    names of the participants. Offline partitions are left out: bringing them online does it."""
    ended = [
        str(partition_of(row))
        for row in _spans(database, command.txn_id)
        if row.online and _end_span(database, row, command)
    ]
    for row in _ack_holders(database, command.txn_id):
        _end_acks(database, row, command)
        ended.append(str(subscription_of(row)))
    return ended


def _end_span(database: Database, row: Row, command: EndCommand) -> bool:
    actions = {command.txn_id: command.action}
    return bool(
        database.retrying(lambda session: end_if_online(session, row.partition_id, actions))
    )


def _end_acks(database: Database, row: Row, command: EndCommand) -> int:
    return database.retrying(
        lambda session: ending.end_held(session, row.topic_id, row.name, [command])
    )


def _spans(database: Database, txn_id: TxnID) -> list[Row]:
    with database.session() as session:
        return session.all("spans_of_txn", tc_id=txn_id.tc_id, sequence=txn_id.sequence)


def _ack_holders(database: Database, txn_id: TxnID) -> list[Row]:
    with database.session() as session:
        return session.all("ack_holders_of_txn", tc_id=txn_id.tc_id, sequence=txn_id.sequence)

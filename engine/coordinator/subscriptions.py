"""Operators' commands on subscriptions that transactions hold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import structlog

from engine.coordinator.coordinator import Coordinator
from engine.coordinator.remedies import Remedies
from engine.model.errors import (
    InvalidTxnStatus,
    PartitionUnavailable,
    TopicInUse,
    TransactionNotFound,
)
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction
from engine.subscription.seeking import Seeking, Target

logger = structlog.get_logger(__name__)

#: How often new holders may come while the earlier ones are ended.
_ROUNDS = 3


class SubscriptionOperations:
    """Operators' commands on subscriptions. Seek works also where acknowledgements are pending."""

    def __init__(self, seeking: Seeking, coordinator: Coordinator, remedies: Remedies) -> None:
        self._seeking = seeking
        self._coordinator = coordinator
        self._remedies = remedies

    def seek(
        self,
        name: SubscriptionName,
        target: Target,
        *,
        partition: int | None = None,
        force: bool = False,
        on_ended: Callable[[TxnID], object] = lambda _: None,
    ) -> tuple[TxnID, ...]:
        """See :meth:`engine.subscription.seeking.Seeking.seek`. With ``force`` the transactions
        that hold acknowledgements are ended first. Those that are open are aborted as a whole, so
        that none is committed in part. Those whose commit is decided are committed, and the seek
        then undoes their acknowledgements as it undoes all others.

        Args:
            on_ended: called with each transaction that is ended for it. A seek that fails
                afterwards, since a broker is away by then, has ended them all the same.

        Returns:
            The transactions that were ended for it.

        Raises:
            TopicInUse: transactions hold acknowledgements, and ``force`` is not set, or new ones
                came each time that the earlier ones had been ended.
        """
        ended: list[TxnID] = []
        for rounds_left in range(_ROUNDS if force else 0, -1, -1):
            try:
                self._seeking.seek(name, target, partition=partition)
                break
            except TopicInUse as held:
                if not rounds_left:
                    raise
                holders = held.data["holders"]
                for holder in holders if isinstance(holders, list) else ():
                    txn_id = TxnID.parse(holder)
                    self._end(name, txn_id)
                    if txn_id not in ended:
                        ended.append(txn_id)
                        on_ended(txn_id)
        return tuple(ended)

    def _end(self, name: SubscriptionName, txn_id: TxnID) -> None:
        """End a transaction on this subscription: as it was decided, else by aborting it. What a
        broker has that is away waits; the seek finds whether that concerns it."""
        logger.warning("transaction ended for a seek", name=str(name), txn_id=str(txn_id))
        with suppress(PartitionUnavailable):
            try:
                with suppress(InvalidTxnStatus):
                    self._coordinator.end(
                        txn_id,
                        TxnAction.ABORT,
                        reason=EndReason.OPERATOR,
                        detail=f"seek of {name} by force",
                    )
                self._remedies.retry(txn_id)
            except TransactionNotFound:
                with suppress(TransactionNotFound):
                    self._remedies.force_abort_acks(name, txn_id)

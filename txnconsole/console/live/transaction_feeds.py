"""The channels of the list of transactions and of one transaction."""

from __future__ import annotations

from engine.inspect.shares import Share
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from txnconsole.console.live.feed import Reading, digest
from txnconsole.console.summary import issued
from txnconsole.enginedb.wiring import engine


class TransactionsFeed:
    """Sends how many transactions are live and how many were ever opened.

    The page keeps its rows in place: it asks for those that were not final, and says how many
    transactions were opened since.
    """

    def __init__(self) -> None:
        self._position = ""

    def read(self) -> Reading:
        """Look once.

        Raises:
            CoordinatorUnavailable: the coordinators' database cannot be read.
        """
        figures = live_figures()
        position = digest(figures)
        changed = position != self._position
        self._position = position
        return Reading(position, {"figures": figures} if changed else None)


class TransactionFeed:
    """Tells when a transaction or one of its participants has moved on, or has written or
    acknowledged more."""

    def __init__(self, txn_id: TxnID) -> None:
        self._txn_id = txn_id
        self._position = ""

    def read(self) -> Reading:
        """Look once.

        Raises:
            TransactionNotFound: its records are gone.
            CoordinatorUnavailable: the coordinators' database cannot be read.
        """
        transaction = engine().coordinator.get(self._txn_id)
        share = None if transaction.ended_at else _share_of(self._txn_id)
        position = transaction_position(transaction, share)
        changed = position != self._position
        self._position = position
        return Reading(position, {"status": str(transaction.status)} if changed else None)


def live_figures() -> dict[str, int]:
    """Live transactions by state, and the number ever opened."""
    figures = {
        str(status).lower(): number for status, number in engine().coordinator.counts().items()
    }
    return figures | {"issued": issued(engine().coordinator.stats())}


def _share_of(txn_id: TxnID) -> Share | None:
    return engine().inspect.transactions.shares([txn_id]).get(txn_id)


def transaction_position(transaction: Transaction, share: Share | None) -> str:
    """Changes with the header, with every participant, and, until it has ended, with what it has
    written and acknowledged: its brokers know that, and ``share`` is None where they were not
    asked."""
    return digest(
        share and [share.messages, share.acks],
        transaction.status,
        str(transaction.deadline),
        [
            [str(one.partition), one.state, one.attempts, one.last_error]
            for one in transaction.partitions
        ],
        [
            [str(one.subscription), one.broker, one.state, one.attempts, one.last_error]
            for one in transaction.subscriptions
        ],
    )

"""The channels of the list of transactions and of one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.inspect.holdings import Holding
from engine.model.transaction import Transaction, TransactionFilter
from engine.model.txn_id import TxnID
from txnconsole.console.live.feed import ChangeFeed, Reading, digest
from txnconsole.console.summary import issued
from txnconsole.enginedb.wiring import engine

#: How many of an owner's newest transactions are sent, and how far open ones are counted.
NEWEST = 40
MOST_OPEN = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TransactionsFeed(ChangeFeed):
    """Sends how many transactions are live and how many were ever opened.

    The page does not move its rows. It asks for those that were not final, and shows how many
    transactions were opened since.
    """

    def look(self) -> Reading:
        """Their figures.

        Raises:
            CoordinatorUnavailable: the coordinators' database cannot be read.
        """
        figures = live_figures()
        return Reading(digest(figures), {"figures": figures})


class OwnTransactionsFeed(ChangeFeed):
    """Sends how many of an owner's transactions are open, and when the newest were opened. It knows
    nothing of others' transactions."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def look(self) -> Reading:
        """The owner's standing.

        Raises:
            CoordinatorUnavailable: the coordinators' database cannot be read.
        """
        standing = own_standing(self._owner)
        return Reading(standing.position, standing.told)


@dataclass(frozen=True, slots=True)
class OwnStanding:
    """An owner's transactions in figures. ``opened`` has the times of the newest ones in µs since
    1970, the newest first."""

    position: str
    figures: dict[str, int]
    opened: list[int]

    @property
    def told(self) -> dict[str, Any]:
        return {"figures": self.figures, "opened": self.opened}


def own_standing(owner: str) -> OwnStanding:
    """Read the owner's newest transactions, and count the open ones.

    Raises:
        CoordinatorUnavailable: the coordinators' database cannot be read.
    """
    coordinator = engine().coordinator
    newest = coordinator.list(TransactionFilter(owner=owner), limit=NEWEST).items
    figures = {"open": coordinator.count_open(owner, MOST_OPEN)}
    statuses = [[str(one.txn_id), one.status] for one in newest]
    opened = [
        (one.opened_at - _EPOCH) // timedelta(microseconds=1) for one in newest if one.opened_at
    ]
    return OwnStanding(digest(figures, statuses), figures, opened)


class TransactionFeed(ChangeFeed):
    """Tells when a transaction or one of its participants has changed its state, or has written or
    acknowledged more. With an ``owner``, transactions of others do not exist."""

    def __init__(self, txn_id: TxnID, owner: str | None = None) -> None:
        self._txn_id = txn_id
        self._owner = owner

    def look(self) -> Reading:
        """The transaction as it is now.

        Raises:
            TransactionNotFound: its records are gone, or it is another owner's.
            CoordinatorUnavailable: the coordinators' database cannot be read.
        """
        transaction = engine().coordinator.get(self._txn_id, owner=self._owner)
        holding = None if transaction.ended_at else _holding_of(self._txn_id)
        position = transaction_position(transaction, holding)
        return Reading(position, {"status": str(transaction.status)})


def live_figures() -> dict[str, int]:
    """How many live transactions each state has, and how many transactions were ever opened."""
    load = engine().coordinator.load()
    figures = {str(status).lower(): number for status, number in load.live.items()}
    return figures | {"issued": issued(load.coordinators)}


def _holding_of(txn_id: TxnID) -> Holding | None:
    return engine().inspect.transactions.holdings([txn_id]).get(txn_id)


def transaction_position(transaction: Transaction, holding: Holding | None) -> str:
    """A digest of the header, of every participant and, until the transaction has ended, of what it
    has written and acknowledged (``holding``, which its brokers know; None when they were not
    asked)."""
    return digest(
        holding and [holding.messages, holding.acks],
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

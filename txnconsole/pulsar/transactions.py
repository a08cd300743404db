"""Transactions as Pulsar's admin API shows and ends them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import UNSET

from engine.inspect.positions import Position, Positions
from engine.model.topic import MAX_RETENTION_MS
from engine.model.transaction import (
    ParticipantState,
    Transaction,
    TransactionFilter,
    TransactionOrder,
)
from engine.model.txn_id import TxnID
from engine.model.txn_status import LIVE, EndReason, TxnStatus
from txnconsole.access.roles import Permission
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import transactions as operations
from txnconsole.pulsar.answers import (
    TransactionInBufferStats,
    TransactionInPendingAckStats,
    TransactionMetadata,
)
from txnconsole.pulsar.endpoint import PulsarEndpoint, PulsarPartitionEndpoint, PulsarTxnEndpoint
from txnconsole.pulsar.names import (
    REASON,
    epoch_ms,
    partition_text,
    position_text,
    txn_text,
)
from txnconsole.pulsar.queries import OfCoordinator

_PENDING = (ParticipantState.PENDING,)
#: Slow transactions in one answer, the oldest first; Pulsar's call knows no pages.
MOST_SLOW = 500


class Metadata(PulsarTxnEndpoint):
    @operation(
        "pulsarTransactionMetadata",
        Permission.TRANSACTION_READ_ANY,
        Shape(answer=TransactionMetadata),
        summary="Pulsar: transactionMetadata",
    )
    def get(self, call: Call[None, NoQuery]) -> TransactionMetadata:
        """A transaction with its participants."""
        transaction = engine().coordinator.get(self.txn_id)
        where = engine().inspect.transactions.positions([self.txn_id])
        # The second look is the newer one; an archived transaction is in the first alone.
        return metadata(where.transactions[0] if where.transactions else transaction, where)


class SlowTransactions(PulsarEndpoint):
    @operation(
        "pulsarSlowTransactions",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=OfCoordinator),
        summary="Pulsar: slowTransactions",
    )
    def get(self, call: Call[None, OfCoordinator]) -> dict[str, TransactionMetadata]:
        """The oldest 500 that have not ended `timeout` ms after they were opened."""
        tc_id = call.query.coordinator_id
        slow = TransactionFilter(
            statuses=LIVE,
            tc_id=tc_id,
            min_age_ms=min(self.kwargs["timeout"], MAX_RETENTION_MS),  # None is a century old.
        )
        found = list(islice(_oldest(slow), MOST_SLOW))
        if tc_id is not None and not found:
            engine().coordinator.stats_of(tc_id)  # None is slow, or there is no such coordinator.
        where = engine().inspect.transactions.positions(found)
        return {txn_text(one.txn_id): metadata(one, where) for one in where.transactions}


class InBuffer(PulsarPartitionEndpoint, PulsarTxnEndpoint):
    @operation(
        "pulsarTransactionInBufferStats",
        Permission.TRANSACTION_READ_ANY,
        Shape(answer=TransactionInBufferStats),
        summary="Pulsar: transactionInBufferStats",
    )
    def get(self, call: Call[None, NoQuery]) -> TransactionInBufferStats:
        """What a partition's transaction buffer knows of a transaction. Of an archived one, which
        names its partitions no more, `aborted` is its outcome."""
        transaction = engine().coordinator.get(self.txn_id)
        parts = [part for part in transaction.partitions if part.partition == self.partition]
        aborted = any(part.state is ParticipantState.ABORTED for part in parts) or (
            transaction.archived and transaction.status is TxnStatus.ABORTED
        )
        start = engine().inspect.transactions.start(self.partition, self.txn_id)
        return TransactionInBufferStats(start_position=_text(start), aborted=aborted)


class Abort(PulsarTxnEndpoint):
    @operation(
        "pulsarAbortTransaction",
        Permission.TRANSACTION_ABORT_ANY,
        Shape(statuses=(204,)),
        summary="Pulsar: abortTransaction",
    )
    def post(self, call: Call[None, NoQuery]) -> None:
        """Answers once ABORTING is durable."""
        operations.abort(self.actor(), self.txn_id, REASON, end_reason=lambda _: EndReason.OPERATOR)


def _oldest(wanted: TransactionFilter) -> Iterator[TxnID]:
    """The transactions that match, page by page: a page may be short, even empty."""
    cursor: str | None = None
    while True:
        page = engine().coordinator.list(
            wanted, order=TransactionOrder.OLDEST, limit=MOST_SLOW, cursor=cursor
        )
        yield from (header.txn_id for header in page.items)
        cursor = page.next_cursor
        if cursor is None:
            return


def metadata(transaction: Transaction, where: Positions) -> TransactionMetadata:
    """Pulsar's view of a transaction."""
    txn_id = transaction.txn_id
    acked: dict[str, dict[str, TransactionInPendingAckStats]] = {}
    for acks in transaction.subscriptions:
        name = acks.subscription
        held = where.acks.get((txn_id, name), {})
        positions = {partition_text(each): position for each, position in held.items()}
        # Once it has ended, or while it holds nothing, only the topic is known.
        for key, position in (positions or {f"persistent://{name.topic}": None}).items():
            acked.setdefault(key, {})[name.name] = TransactionInPendingAckStats(
                cumulative_ack_position=_text(position)
            )
    pending = {
        *(each.broker for each in transaction.partitions if each.state in _PENDING),
        *(each.broker for each in transaction.subscriptions if each.state in _PENDING),
    }
    missing = sorted(pending & where.unavailable.keys())
    return TransactionMetadata(
        txn_id=txn_text(txn_id),
        status=transaction.status,
        open_timestamp=epoch_ms(transaction.opened_at),
        timeout_at=transaction.timeout_ms or 0,
        produced_partitions={
            partition_text(part.partition): TransactionInBufferStats(
                start_position=_text(where.starts.get((txn_id, part.partition))),
                aborted=part.state is ParticipantState.ABORTED,
            )
            for part in transaction.partitions
        },
        acked_partitions=acked,
        owner=transaction.owner,
        unavailable=missing or UNSET,
    )


def _text(position: Position | None) -> str | None:
    return None if position is None else position_text(position)

"""Exactly-once writing to a topic, however often it is repeated. Nothing here knows Spark.

A batch is written by attempts, each in an engine transaction of its own; any attempt may fail or be
repeated. One call then ends all of them by one atomic decision under the key ``sink/batch``: the
transactions of the attempts that count are committed, all others of the sink are aborted. When the
batch was decided before, that decision stays, and the new transactions are aborted.

The guard distinguishes queries that write under one sink's name, one after the other. When a
checkpoint is deleted, batches start at 0 again with other contents. Their keys then exist under
another guard, and the write is refused (``ProducerFenced``) instead of being taken for a
repetition. A checkpoint that is restored from an older copy keeps its guard, and counts from below
again; therefore what a batch covers is part of its guard, where it is known.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import structlog

from txnconsole.client import (
    Client,
    InvalidTxnStatus,
    ProducerFenced,
    Transaction,
    TransactionInfo,
    TxnConsoleError,
    calls,
)
from txnconsole.client.answers import EndedGroup
from txnconsole.pipeline.delivery import Delivery
from txnconsole.pipeline.outgoing import Collector, Outgoing
from txnconsole.pipeline.subscription import Claim

#: The contract's limit for one group. What a sink has left open beyond it, the next batches abort.
_GROUP_TRANSACTIONS = 10_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Sink:
    """One output, written by one writer at a time.

    Attributes:
        name: distinguishes the batches of this output from all others; the same after restarts.
        topic: where the messages go.
        timeout: for how many seconds a transaction may stay open after its attempt last extended
            it. A batch must be decided within two thirds of this after an attempt has ended.
    """

    name: str
    topic: str
    timeout: float

    @property
    def client(self) -> str:
        """The client name under which all transactions of this sink are found, among its
        owner's."""
        return f"spark:{self.name}"


@dataclass(frozen=True)
class Batch:
    """What is decided once: the sink's batch of this ``number``, as ``guard`` counts them.

    ``run`` identifies the writer's run: transactions of another run were left open when its process
    ended. ``covers`` tells what the batch has read, where that is known; a repetition covers the
    same.
    """

    number: str
    guard: str
    run: str = field(default="", compare=False)
    covers: str = ""

    @property
    def guards(self) -> list[str]:
        """The guards under which it is decided, or was: before 2026-11-26 without what it
        covers."""
        return [f"{self.guard}/{self.covers}", self.guard] if self.covers else [self.guard]


class Attempt:
    """An attempt at a part of a batch. Its transaction is opened with the first message."""

    def __init__(self, client: Client, sink: Sink, batch: Batch) -> None:
        self.messages = 0
        self._client, self._sink, self._batch = client, sink, batch
        self._transaction: Transaction | None = None
        topic = client.topic(sink.topic)
        self._deduplication = topic.deduplication
        self._collector = Collector(topic.partitions)
        self._delivery = Delivery(self._send)
        self._extend_at = 0.0

    @property
    def txn_id(self) -> str | None:
        return None if self._transaction is None else self._transaction.txn_id

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows, each to the partition that it names, that of its key, or the next in turn.

        Raises:
            ValueError: a payload is null, or a property is given twice.
            TxnConsoleError: the server refuses them, for good or for longer than the client waits.
        """
        if not rows.num_rows:
            return
        transaction = self._open()
        for batch in self._collector.add(rows):
            self._delivery.take(batch)
            self._stay_alive(transaction)
        self.messages += rows.num_rows

    def finish(self) -> None:
        """Send what is not sent yet, and extend the transaction so that the batch's other attempts
        have time to end.

        Raises:
            TxnConsoleError: the server refuses some of it.
        """
        if self._transaction is not None:
            for batch in self._collector.rest():
                self._delivery.take(batch)
            self._delivery.finish()
            self._stay_alive(self._transaction)

    def close(self) -> None:
        """Send nothing more. The transaction stays open, for the driver to decide."""
        self._delivery.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, batch: Outgoing, sequence_id: int) -> None:
        self._client.perform(
            calls.produce_packed(
                self._sink.topic,
                batch.partition,
                batch.messages,
                txn_id=self.txn_id,
                producer_name=self._sink.client,
                sequence_id=sequence_id,
                deduplication=self._deduplication,
            )
        )

    def _open(self) -> Transaction:
        if self._transaction is None:
            if self._batch.run:
                abort_dead(self._client, self._sink, self._batch.run)
            self._plan_extension()
            self._transaction = _begin(self._client, self._sink, self._batch)
        self._stay_alive(self._transaction)
        return self._transaction

    def _stay_alive(self, transaction: Transaction) -> None:
        if time.monotonic() > self._extend_at:
            self._plan_extension()
            transaction.extend(self._sink.timeout)

    def _plan_extension(self) -> None:
        self._extend_at = time.monotonic() + self._sink.timeout / 3


def _begin(client: Client, sink: Sink, batch: Batch) -> Transaction:
    return client.transaction(
        client=sink.client,
        properties={"sink": sink.name, "batch": batch.number, "run": batch.run},
        timeout=sink.timeout,
    )


def commit(
    client: Client,
    sink: Sink,
    batch: Batch,
    winners: Collection[str],
    claims: Sequence[Claim] = (),
) -> None:
    """Decide a batch, even an empty one: the winners are committed, the sink's other attempts are
    aborted, and what the batch has read of subscriptions is acknowledged with it.

    When the batch was decided before, that decision stays, and the winners of this repetition are
    aborted too.

    Raises:
        ProducerFenced: it was decided under another guard, or covers something else now. Nothing
            has been changed.
        InvalidTxnStatus: a winner has timed out or was aborted. Nothing has been changed.
        TransactionConflict, ConsumerBusy: somebody else acknowledges on a subscription.
    """
    losers = _open_ids(client, sink) - set(winners)
    winners = {*winners, *_acknowledged(client, sink, batch, claims)}
    if _decide(client, sink, batch, winners, losers).duplicate:
        # Transactions that are open were not part of that decision. (There are none when it was
        # this call's own, and only its answer was lost.)
        _log.info("batch_decided_before", sink=sink.name, batch=batch.number)
        _abort_all(
            client, _open_ids(client, sink), f"batch {batch.number} had been committed before"
        )


def _decide(
    client: Client, sink: Sink, batch: Batch, winners: Collection[str], losers: Collection[str]
) -> EndedGroup:
    for guard in batch.guards:  # A group that refuses the first is decided; the next only repeats.
        with contextlib.suppress(ProducerFenced):
            return client.transactions.end_group(
                f"{sink.name}/{batch.number}",
                guard=guard,
                commit=sorted(winners),
                abort=sorted(losers)[: max(_GROUP_TRANSACTIONS - len(winners), 0)],
            )
    raise ProducerFenced(
        f"Batch {batch.number} of {sink.name} was decided before, by another query or from other"
        " input: the checkpoint was deleted, or restored from an older copy. Nothing was changed."
        " Begin where the output ends, with a new checkpoint and another sink."
    )


def await_visible(client: Client, sink: Sink, *, seconds: float) -> bool:
    """Wait until all that a sink has committed can be read; returns whether it can.

    A broker that is away makes it later than ``seconds``, and changes nothing of the decision; so
    nothing is raised here: a caller that took it for a failure would write the batch again.
    """
    deadline = time.monotonic() + seconds
    try:
        while (left := deadline - time.monotonic()) > 0:
            unfinished = next(_own(client, sink, "COMMITTING", limit=1), None)
            if unfinished is None:
                return True
            client.transactions.commit(unfinished.txn_id, wait=left)
    except TxnConsoleError as error:
        _log.warning("visibility_unknown", sink=sink.name, code=error.code)
    else:
        _log.warning("not_visible_yet", sink=sink.name, waited_s=seconds)
    return False


def is_committed(client: Client, sink: Sink, number: str) -> bool:
    """Whether a batch with messages was committed, as long as its transactions are not archived."""
    return any(
        transaction.properties.get("batch") == number
        for status in ("COMMITTED", "COMMITTING")
        for transaction in _own(client, sink, status)
    )


def _acknowledged(client: Client, sink: Sink, batch: Batch, claims: Sequence[Claim]) -> list[str]:
    """The transaction with the batch's acknowledgements, as a list; empty when nothing is left to
    acknowledge."""
    for claim in claims:
        claim.settle(client, sink.client)
    if not any(claim.behind(client) for claim in claims):
        return []
    transaction = _begin(client, sink, batch)
    for claim in claims:
        claim.acknowledge(client, transaction, sink.client)
    return [transaction.txn_id]


def abort(client: Client, sink: Sink, number: str) -> None:
    """Abort the attempts at a batch that are still open; a decision on it stays."""
    attempts = {
        transaction.txn_id
        for transaction in _open(client, sink)
        if transaction.properties.get("batch") == number
    }
    _abort_all(client, attempts, f"batch {number} of {sink.name} failed")


@functools.lru_cache(maxsize=64)
def abort_dead(client: Client, sink: Sink, run: str) -> int:
    """Abort the transactions that earlier runs of a sink's writer left open, once in each process.
    They would hold back READ_COMMITTED readers of the output until they time out.

    A sink has one writer at a time, so when a new run writes, the earlier ones have ended.

    Returns:
        How many there were.
    """
    dead = {
        transaction.txn_id
        for transaction in _open(client, sink)
        if transaction.properties.get("run") != run
    }
    _abort_all(client, dead, f"left by a writer of {sink.name} that died")
    return len(dead)


def abort_leftovers(client: Client, sink: Sink) -> int:
    """Abort all open transactions of a sink, before a new writer starts: they would hold back
    READ_COMMITTED readers of the topic until they time out.

    Returns:
        How many there were.
    """
    leftovers = _open_ids(client, sink)
    _abort_all(client, leftovers, f"left by a writer of {sink.name} that died")
    return len(leftovers)


def _open(client: Client, sink: Sink) -> Iterator[TransactionInfo]:
    return _own(client, sink, "OPEN")


def _own(client: Client, sink: Sink, status: str, *, limit: int = 500) -> Iterator[TransactionInfo]:
    """A sink's transactions in a status. Those of another owner under its name are none: a token
    that sees them need not be one that may end them."""
    return client.transactions.list(
        client=sink.client, owner=_owner(client), status=status, limit=limit
    )


@functools.lru_cache(maxsize=8)
def _owner(client: Client) -> str:
    """Whose transactions are those that a client opens."""
    return client.perform(calls.get_caller()).name


def _open_ids(client: Client, sink: Sink) -> set[str]:
    return {transaction.txn_id for transaction in _open(client, sink)}


def _abort_all(client: Client, txn_ids: Collection[str], reason: str) -> None:
    for txn_id in sorted(txn_ids):
        try:
            client.transactions.abort(txn_id, reason=reason)
        except InvalidTxnStatus:
            # Decided in the meantime, by its expiry or by the batch's own commit.
            _log.info("attempt_already_ended", txn_id=txn_id)

"""Producing messages in batches, exactly once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

from txnconsole.client import calls
from txnconsole.client.answers import Produced
from txnconsole.client.batching import Batch, Batcher, BatchLimits
from txnconsole.client.calls import NewMessage
from txnconsole.client.errors import TxnConsoleError
from txnconsole.client.partitioner import Partitioner
from txnconsole.client.retries import is_retryable
from txnconsole.client.transaction import Transaction
from txnconsole.client.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """Who produces; ``first_sequence_id`` is None when only transactional sends are safe."""

    name: str
    first_sequence_id: int | None


class Producer:
    """Sends messages to a topic; keyed ones by their key's hash, others in turn.

    Messages wait until their batch is full, or until ``flush``, the end of the ``with`` block or
    their transaction's commit. Batches of a partition are stored in the order of ``send``. A batch
    that could not be delivered stays, under its sequence id, and the next flush sends it again
    without storing it twice; one that the server refused for good is dropped with the exception.

    One thread at a time.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        identity: ProducerIdentity,
        *,
        partitions: int,
        limits: BatchLimits,
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._identity = identity
        self._partitioner = Partitioner(partitions)
        self._batcher = Batcher(limits, first_sequence_id=identity.first_sequence_id or 0)
        self._sealed: deque[Batch] = deque()
        self._transactions: dict[str, Transaction] = {}

    @property
    def name(self) -> str:
        return self._identity.name

    def send(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        event_time: datetime | None = None,
        txn: Transaction | None = None,
        partition: int | None = None,
    ) -> None:
        """Add a message to its batch, and send the batch when it is full.

        Raises:
            ValueError: outside a transaction, a name that was given needs a first sequence id.
            TxnConsoleError: a full batch could not be sent.
        """
        if txn is None and self._identity.first_sequence_id is None:
            raise ValueError(
                "A producer with a name of its own may have been here before: outside a"
                " transaction its messages could pass for duplicates. Give first_sequence_id,"
                " one above the last that was used, or no name."
            )
        message = NewMessage(
            payload=payload, key=key, properties=properties or {}, event_time=event_time
        )
        chosen = self._partitioner.choose(key) if partition is None else partition
        if txn is not None:
            txn.enlist(self)
            self._transactions[txn.txn_id] = txn
        self._sealed += self._batcher.add(chosen, txn.txn_id if txn else None, message)
        self._deliver_sealed(_wanted(txn))

    def flush(self, txn: Transaction | None = None) -> list[Produced]:
        """Send what is collected: of one transaction, or everything.

        Raises:
            TxnConsoleError: a batch could not be sent.
        """
        self._sealed += self._batcher.seal(_wanted(txn))
        return self._deliver_sealed(_wanted(txn))

    def seal(self, txn: Transaction | None = None) -> list[Batch]:
        """Take what is collected as batches that the caller sends with ``deliver``."""
        self._sealed += self._batcher.seal(_wanted(txn))
        batches = [batch for batch in self._sealed if _wanted(txn)(batch.txn_id)]
        self._forget(batches)
        return batches

    def deliver(self, batch: Batch) -> Produced:
        """Send one batch. The same batch again answers ``duplicate`` and stores nothing."""
        return self._transport.perform(
            calls.produce(
                self._topic,
                batch.partition,
                batch.messages,
                txn_id=batch.txn_id,
                producer_name=self._identity.name,
                sequence_id=batch.sequence_id,
            )
        )

    def flush_transaction(self, txn: Transaction) -> None:
        self.flush(txn)
        self._transactions.pop(txn.txn_id, None)

    def discard_transaction(self, txn: Transaction) -> None:
        self._transactions.pop(txn.txn_id, None)
        self._batcher.discard(txn.txn_id)
        self._forget([batch for batch in self._sealed if batch.txn_id == txn.txn_id])

    def _deliver_sealed(self, wanted: Callable[[str | None], bool]) -> list[Produced]:
        answers = []
        for batch in [batch for batch in self._sealed if wanted(batch.txn_id)]:
            try:
                answers.append(self.deliver(batch))
            except TxnConsoleError as error:
                if batch.txn_id in self._transactions:
                    self._transactions[batch.txn_id].fail(error)
                if not is_retryable(error, idempotent=True):
                    self._forget([batch])
                raise
            self._forget([batch])
        return answers

    def _forget(self, batches: list[Batch]) -> None:
        gone = {batch.sequence_id for batch in batches}
        self._sealed = deque(batch for batch in self._sealed if batch.sequence_id not in gone)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.flush()


def _wanted(txn: Transaction | None) -> Callable[[str | None], bool]:
    if txn is None:
        return lambda txn_id: True
    return lambda txn_id: txn_id == txn.txn_id

"""Producing messages in batches, exactly once."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Self

from txnconsole.client import arguments, calls
from txnconsole.client.answers import Produced
from txnconsole.client.batching import Batch, Batcher, BatchLimits
from txnconsole.client.blocking import Block, Method
from txnconsole.client.calls import NewMessage
from txnconsole.client.errors import ProducerClosed, TxnConsoleError
from txnconsole.client.partitioner import Partitioner
from txnconsole.client.retries import is_retryable
from txnconsole.client.runtime import Signal
from txnconsole.client.transaction import OpenTransaction, id_of
from txnconsole.client.transport import Transport, Work
from txnconsole.client.wire import Call

_log = logging.getLogger(__name__)
#: Seconds after which a producer that sends looks whether its topic has grown, as Pulsar's do.
_LOOK_AGAIN = 60.0
#: Seconds that such a look may take.
_LOOK = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """A producer's name, and the sequence id of its first batch. None as the latter: unknown, so
    only sends in transactions are safe."""

    name: str
    first_sequence_id: int | None


class AsyncProducer:
    """Sends messages to the partitions of a topic: by the hash of the key, or in turn without one.

    Messages wait until their batch is full or has lingered, or until ``flush``, the end of the
    ``with`` block or their transaction's commit. The batches of a partition are stored in the order
    in which they were filled.

    A batch that could not be delivered is kept with its sequence id; the next flush sends it again,
    and it is not stored twice. A batch is dropped with the exception when the server refused it for
    good, or when it may have been stored on a topic that does not deduplicate. When a batch fails
    that was sent because it had lingered, the next call raises the exception; if the batch was in
    a transaction, the next call in that transaction does.

    One call at a time sends: while a batch is on its way, other callers wait. Partitions that are
    added are found beside that, a minute later at the soonest.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        identity: ProducerIdentity,
        *,
        partitions: int,
        deduplication: bool,
        limits: BatchLimits,
    ) -> None:
        self.transport = transport
        self._topic = topic
        self._identity = identity
        self._deduplication = deduplication
        self._partitioner = Partitioner(partitions)
        self._looked = transport.runtime.clock()
        self._batcher = Batcher(limits, first_sequence_id=identity.first_sequence_id or 0)
        self._sealed: deque[Batch] = deque()
        self._transactions: dict[str, OpenTransaction] = {}
        self._turn = transport.runtime.lock()
        self._linger = limits.linger
        self._lingering: Work | None = None
        self._failures: dict[str | None, Exception] = {}
        self._closed = False

    @property
    def name(self) -> str:
        return self._identity.name

    async def send(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        event_time: datetime | None = None,
        txn: OpenTransaction | None = None,
        partition: int | None = None,
    ) -> None:
        """Add a message to its batch, and send the batch when it is full.

        Raises:
            TypeError, ValueError: an argument is wrong; the text names it.
            ValueError: it is outside a transaction, and the producer was given a name without a
                first sequence id.
            ProducerClosed, TransactionEnded: it comes too late.
            TxnConsoleError: a full batch could not be sent.
        """
        txn_id = id_of(txn)
        if txn is None and self._identity.first_sequence_id is None:
            raise ValueError(
                "A producer with a name of its own may have been here before: outside a"
                " transaction its messages could pass for duplicates. Give first_sequence_id,"
                " one above the last that was used, or no name."
            )
        message = NewMessage(
            payload=payload,
            key=key,
            properties={} if properties is None else properties,
            event_time=event_time,
        )
        if partition is not None:
            arguments.whole("partition", partition, least=0)
        async with self._own_turn():
            if self._closed:
                raise ProducerClosed(f"The producer {self.name} of {self._topic} is closed.")
            self._raise_failure(lambda candidate: candidate in (None, txn_id))
            self._look_again()
            chosen = self._partitioner.choose(key) if partition is None else partition
            if txn is not None:
                txn.require_open()  # Again: it may have been ended while this call waited.
                txn.enlist(self)
                self._transactions[txn.txn_id] = txn
            self._sealed += self._batcher.add(chosen, txn_id, message)
            self._start_lingering()
            await self._deliver_sealed(_wanted(txn_id))

    async def flush(self, txn: OpenTransaction | None = None) -> list[Produced]:
        """Send what is collected: for one transaction, or everything.

        Returns:
            Where each batch is stored.

        Raises:
            TxnConsoleError: a batch could not be sent.
        """
        return await self._flush(_wanted(txn.txn_id if txn else None))

    async def seal(self, txn: OpenTransaction | None = None) -> list[Batch]:
        """Take what is collected, as batches that the caller will send with ``deliver``."""
        wanted = _wanted(txn.txn_id if txn else None)
        async with self._own_turn():
            self._sealed += self._batcher.seal(wanted)
            batches = [batch for batch in self._sealed if wanted(batch.txn_id)]
            self._forget(batches)
            return batches

    async def deliver(self, batch: Batch) -> Produced:
        """Send one batch. On a topic that deduplicates, sending it again stores nothing; the answer
        is then a ``duplicate``."""
        return await self.transport.perform(self._call(batch))

    async def close(self) -> None:
        """Send what is collected, and stop the background work. From now on no message is taken.
        What could not be sent is kept for another ``close`` or ``flush``.

        Raises:
            TxnConsoleError: a batch could not be sent.
        """
        self._closed = True
        try:
            await self.flush()
        finally:
            await self._stop_lingering()

    async def discard(self, txn: OpenTransaction) -> None:
        """Forget what is collected for a transaction, as aborting it does."""
        await self.discard_transaction(txn.txn_id)

    async def flush_transaction(self, txn_id: str) -> None:
        await self._flush(_wanted(txn_id))
        self._transactions.pop(txn_id, None)

    async def discard_transaction(self, txn_id: str) -> None:
        async with self._own_turn():
            self._transactions.pop(txn_id, None)
            self._failures.pop(txn_id, None)
            self._batcher.discard(txn_id)
            self._forget([batch for batch in self._sealed if batch.txn_id == txn_id])

    async def _flush(self, wanted: Callable[[str | None], bool]) -> list[Produced]:
        async with self._own_turn():
            self._raise_failure(lambda candidate: candidate is None or wanted(candidate))
            self._sealed += self._batcher.seal(wanted)
            return await self._deliver_sealed(wanted)

    async def _deliver_sealed(self, wanted: Callable[[str | None], bool]) -> list[Produced]:
        return [
            await self._deliver_one(batch)
            for batch in [batch for batch in self._sealed if wanted(batch.txn_id)]
        ]

    def _call(self, batch: Batch) -> Call[Produced]:
        return calls.produce(
            self._topic,
            batch.partition,
            batch.messages,
            txn_id=batch.txn_id,
            producer_name=self._identity.name,
            sequence_id=batch.sequence_id,
            deduplication=self._deduplication,
        )

    async def _deliver_one(self, batch: Batch) -> Produced:
        """Send a batch, and keep it if it may be sent again: where only deduplication makes that
        safe, as after an interruption, and after what the program's own functions raise."""
        stays = False  # What is wrong with the batch itself would be raised again.
        try:
            call = self._call(batch)
            stays = self._deduplication
            answer = await self.transport.perform(call)
        except BaseException as error:
            if isinstance(error, TxnConsoleError):
                stays = is_retryable(error, idempotent=self._deduplication)
            if batch.txn_id in self._transactions and (isinstance(error, Exception) or not stays):
                self._transactions[batch.txn_id].fail(error)
            if not stays:
                self._forget([batch])
            raise
        self._forget([batch])
        return answer

    def _own_turn(self) -> AbstractAsyncContextManager[object]:
        """One caller's turn: not in a process that has been forked, where a thread that had the
        turn goes on no more, and nobody sends what lingers."""
        self.transport.require_own_place(f"the producer {self.name} takes and sends nothing here")
        return self._turn

    def _forget(self, batches: list[Batch]) -> None:
        gone = {batch.sequence_id for batch in batches}
        self._sealed = deque(batch for batch in self._sealed if batch.sequence_id not in gone)

    def _raise_failure(self, wanted: Callable[[str | None], bool]) -> None:
        for txn_id in self._failures:
            if wanted(txn_id):
                raise self._failures.pop(txn_id)

    def _look_again(self) -> None:
        now = self.transport.runtime.clock()
        if now - self._looked >= _LOOK_AGAIN:
            self._looked = now
            self.transport.start(self._look)

    async def _look(self, _: Signal) -> None:
        call = replace(calls.get_topic(self._topic), patience=_LOOK)
        try:
            found = await self.transport.attempt(call)
        except Exception as error:  # The next look will do.
            _log.info("The partitions of %s were not looked at: %s", self._topic, error)
            return
        self._partitioner.partitions = max(self._partitioner.partitions, found.partitions)

    def _start_lingering(self) -> None:
        if self._linger is not None and self._lingering is None and not self._batcher.empty:
            self._lingering = self.transport.start(self._send_lingering)

    async def _stop_lingering(self) -> None:
        lingering = self._lingering
        if lingering is not None:
            await lingering.stop()

    async def _send_lingering(self, stopped: Signal) -> None:
        """Send what has lingered, until nothing is collected any more."""
        going_on = True
        while going_on:
            told_to_stop = await stopped.wait(self._linger)
            async with self._turn:
                going_on = not told_to_stop and await self._sent_lingering()
                if not going_on:
                    # Under the lock, so that the next message starts this work again.
                    self._lingering = None

    async def _sent_lingering(self) -> bool:
        """Send what is collected; whether something is left that could not be sent yet."""
        self._sealed += self._batcher.seal(_wanted(None))
        for batch in list(self._sealed):
            try:
                await self._deliver_one(batch)
            except Exception as error:
                if batch in self._sealed:
                    return True
                self._failures.setdefault(batch.txn_id, error)
        return False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        else:
            self._closed = True
            await self._stop_lingering()


class Producer(Block[AsyncProducer]):
    __doc__ = AsyncProducer.__doc__

    send = Method(AsyncProducer.send)
    flush = Method(AsyncProducer.flush)
    seal = Method(AsyncProducer.seal)
    deliver = Method(AsyncProducer.deliver)
    discard = Method(AsyncProducer.discard)
    close = Method(AsyncProducer.close)

    @property
    def name(self) -> str:
        return self.core.name


def _wanted(txn_id: str | None) -> Callable[[str | None], bool]:
    if txn_id is None:
        return lambda candidate: True
    return lambda candidate: candidate == txn_id

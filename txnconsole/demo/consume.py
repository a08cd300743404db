"""Consume, transform, produce: delayed flights, each exactly once (PIP-31, "Event Processing")."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from txnconsole.client import (
    Client,
    Consumer,
    InvalidTxnStatus,
    Message,
    Producer,
    Transaction,
    TransactionConflict,
)
from txnconsole.demo.pacing import Stop, Stopped
from txnconsole.demo.tally import Tally, log
from txnconsole.demo.topics import SUBSCRIPTION, Topics

#: A flight is delayed when it arrives so many minutes late.
LATE_MINUTES = 15

_MESSAGES = 200
_TIMEOUT = 30.0
#: The deadline of a transaction that is left open as by a crash; it holds ``delays`` back so long.
_CRASHED_TIMEOUT = 10.0


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a flight that ``delays`` carries; minutes, None when cancelled or diverted."""

    carrier: str
    flight: int
    origin: str
    dest: str
    time_hour: str
    dep_delay: float | None
    arr_delay: float | None

    @property
    def is_late(self) -> bool:
        return self.arr_delay is not None and self.arr_delay >= LATE_MINUTES


_decoder = msgspec.json.Decoder(Delay)


class Fault(StrEnum):
    """What the consumer does wrong on purpose with a share of its batches."""

    NONE = "none"
    ABORT = "abort"
    CRASH = "crash"
    CONFLICT = "conflict"


_FAULTS = ((Fault.ABORT, 0.03), (Fault.CRASH, 0.01), (Fault.CONFLICT, 0.03))


class DelayMonitor:
    """A consumer of ``flights`` that produces to ``delays`` in the acknowledging transaction.

    It keeps nothing: what it had received when it died is delivered again.
    """

    def __init__(self, client: Client, topics: Topics, *, seed: int, stop: Stop) -> None:
        self._client = client
        self._topics = topics
        self._random = random.Random(f"{seed}/{SUBSCRIPTION}")  # noqa: S311
        self._stop = stop
        self.tally = Tally(SUBSCRIPTION)

    def run(self) -> None:
        """Process messages until stopped.

        Raises:
            Stopped: a stop was requested; an open transaction is aborted.
        """
        consumer = self._client.consumer(self._topics.flights, SUBSCRIPTION, name=SUBSCRIPTION)
        with self._client.producer(self._topics.delays, name=SUBSCRIPTION) as producer:
            try:
                while True:
                    self._stop.sleep(0)
                    messages = consumer.receive(_MESSAGES, wait=1.0)
                    if messages:
                        self.process(consumer, producer, messages, draw_fault(self._random))
            finally:
                self.tally.report()

    def process(
        self, consumer: Consumer, producer: Producer, messages: Sequence[Message], fault: Fault
    ) -> None:
        """Acknowledge these messages and produce their delays, both or neither."""
        delays = self._delays(messages)
        txn = self._client.transaction(
            timeout=_CRASHED_TIMEOUT if fault is Fault.CRASH else _TIMEOUT, client=SUBSCRIPTION
        )
        try:
            for message, delay in delays:
                producer.send(
                    msgspec.json.encode(delay),
                    key=delay.carrier,
                    properties=message.properties,
                    event_time=message.event_time,
                    txn=txn,
                )
            producer.flush(txn)
            consumer.ack(*messages, txn=txn)
            if fault is Fault.CRASH:
                self.tally.add("transactions_left_open")
                return
            self._end(consumer, messages, txn, fault)
        except TransactionConflict as error:
            # Delivered again after the acknowledgement timeout, and acknowledged by the other.
            log.warning("demo.conflict", txn_id=txn.txn_id, reason=str(error))
            txn.abort("an acknowledgement conflicts")
            consumer.nack(*messages)
            self.tally.add("conflicts_met")
        except InvalidTxnStatus as error:
            log.warning("demo.transaction_lost", txn_id=txn.txn_id, reason=str(error))
            self.tally.add("transactions_lost")
        except Stopped:
            txn.abort("the consumer was stopped")
            raise
        else:
            if txn.info.status in {"COMMITTING", "COMMITTED"}:
                self.tally.add("flights_processed", len(messages))
                self.tally.add("delays_produced", len(delays))

    def _end(
        self, consumer: Consumer, messages: Sequence[Message], txn: Transaction, fault: Fault
    ) -> None:
        if fault is Fault.CONFLICT:
            self._provoke_conflict(consumer, messages)
        if fault is Fault.ABORT:
            txn.abort("the demo aborts a share")
            self.tally.add("transactions_aborted")
        else:
            txn.commit()

    def _provoke_conflict(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        """Acknowledge in a second transaction what the first one holds; the second is aborted."""
        second = self._client.transaction(timeout=_TIMEOUT, client=SUBSCRIPTION)
        try:
            consumer.ack(*messages, txn=second)
        except TransactionConflict:
            self.tally.add("conflicts_provoked")
        else:
            log.error("demo.conflict_missed", txn_id=second.txn_id)
            self.tally.add("conflicts_missed")
        second.abort("a conflict provoked by the demo")

    def _delays(self, messages: Sequence[Message]) -> list[tuple[Message, Delay]]:
        delays = []
        for message in messages:
            try:
                delay = _decoder.decode(message.payload)
            except msgspec.MsgspecError:
                # Somebody else's message: it is acknowledged, so that it does not come for ever.
                log.warning("demo.no_flight", message_id=message.message_id)
                self.tally.add("messages_skipped")
                continue
            if delay.is_late:
                delays.append((message, delay))
        return delays


def draw_fault(source: random.Random) -> Fault:
    """The fault of one batch."""
    drawn = source.random()
    for fault, share in _FAULTS:
        if drawn < share:
            return fault
        drawn -= share
    return Fault.NONE

"""Consume, transform, produce: each batch of messages in one transaction, exactly once."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable
from typing import Protocol

from txnconsole.client.answers import Message, SubscriptionInfo
from txnconsole.client.arguments import wrong_type
from txnconsole.client.asynchronous import Opening
from txnconsole.client.calls import NewMessage
from txnconsole.client.consumer import AsyncConsumer
from txnconsole.client.errors import (
    InvalidTxnStatus,
    TransactionAborted,
    TransactionConflict,
    TxnConsoleError,
)
from txnconsole.client.producer import AsyncProducer
from txnconsole.client.runtime import Runtime
from txnconsole.client.transaction import AsyncTransaction
from txnconsole.client.transactions import AsyncTransactions

_log = logging.getLogger(__name__)

Transform = Callable[[Message], Iterable[NewMessage] | Awaitable[Iterable[NewMessage]]]

#: Seconds for which the end of a transaction that an earlier run has left is waited for: longer
#: than it takes anywhere but where a broker is away.
_ENDED = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """What was done: how many messages were received and sent, in ``committed`` transactions.

    ``aborted`` counts the transactions whose batch was given back, to be received again.
    """

    received: int = 0
    sent: int = 0
    committed: int = 0
    aborted: int = 0


def messages_of(made: Iterable[NewMessage]) -> list[NewMessage]:
    """What ``transform`` returned, as a list.

    Raises:
        TypeError: it is not an iterable of NewMessage.
    """
    if not isinstance(made, Iterable):
        raise wrong_type("What transform returns", "some NewMessage in a list", made)
    messages = list(made)
    for each in messages:
        if not isinstance(each, NewMessage):
            raise wrong_type("What transform returns", "some NewMessage in a list", each)
    return messages


async def take_over(
    transactions: AsyncTransactions, consumer: AsyncConsumer, *, owner: str
) -> None:
    """End what an earlier run left under the consumer's name, so that nothing waits for deadlines:
    its open transactions are aborted, then what it had in flight is given back.

    Raises:
        TxnConsoleError: the server cannot be reached or refuses.
    """
    for status in ("OPEN", "ABORTING"):
        async for left in transactions.list(client=consumer.name, owner=owner, status=status):
            with suppress(InvalidTxnStatus):  # It has been committed meanwhile.
                await transactions.abort(
                    left.txn_id, reason="its program was started again", wait=_ENDED
                )
    await consumer.leave()


class Begin(Protocol):
    def __call__(self) -> Opening[AsyncTransaction]: ...


class LookUp(Protocol):
    def __call__(self) -> Awaitable[SubscriptionInfo]: ...


class Processor:
    """Receives a batch, sends what ``transform`` makes of it, acknowledges it, and commits both.

    A batch whose transaction is aborted, by a conflict, its deadline or an operator, is given back
    and tried again. When ``transform`` raises, or what it made is refused or cannot be sent, the
    batch is given back and the exception is raised. When the commit gets no answer, that exception
    is raised too; whether it was carried out or not, nothing is lost or done twice, because the
    messages and the acknowledgements share its outcome.

    ``until_empty`` ends it when nothing comes, and nothing is in flight to it in an answer that was
    lost: that is given back, and received again.
    """

    def __init__(
        self,
        consumer: AsyncConsumer,
        producer: AsyncProducer,
        transform: Transform,
        *,
        begin: Begin,
        look_up: LookUp,
        runtime: Runtime,
    ) -> None:
        self._consumer, self._producer, self._transform = consumer, producer, transform
        self._begin, self._look_up, self._runtime = begin, look_up, runtime

    async def run(
        self, *, max_messages: int, wait: float, stop: Callable[[], bool], until_empty: bool
    ) -> Processed:
        received = sent = committed = aborted = failures = 0
        while not stop():
            messages = await self._consumer.receive(max_messages, wait=wait)
            if not messages:
                if until_empty and not await self._took_back():
                    break
                continue
            produced = await self._process(messages)
            if produced is None:
                aborted += 1
                failures += 1
                await self._back_off(failures)
                continue
            failures = 0
            received, sent, committed = received + len(messages), sent + produced, committed + 1
        return Processed(received=received, sent=sent, committed=committed, aborted=aborted)

    async def _took_back(self) -> bool:
        """Give back what came in answers that were lost: it is in flight to this consumer, which
        has nothing in hand here. Returns whether there was any."""
        found = await self._look_up()
        if not any(self._consumer.name in cursor.delivered for cursor in found.partitions):
            return False
        await self._consumer.leave()
        return True

    async def _process(self, messages: list[Message]) -> int | None:
        """Process a batch.

        Returns:
            How many messages were sent; None when the transaction was aborted.
        """
        sent = 0
        try:
            async with self._begin() as txn:
                for message in messages:
                    made = self._transform(message)
                    for each in messages_of(await made if isawaitable(made) else made):
                        await self._producer.send(
                            each.payload,
                            key=each.key,
                            properties=each.properties,
                            event_time=each.event_time,
                            txn=txn,
                        )
                        sent += 1
                # A refusal is raised here as what it is. The commit would tell it as an abort, and
                # the batch be tried again without end.
                await self._producer.flush(txn)
                await self._consumer.ack(*messages, txn=txn)
        except (TransactionConflict, TransactionAborted, InvalidTxnStatus) as error:
            _log.warning("A batch of %d messages was given back: %s", len(messages), error)
            await self._consumer.nack(*messages)
            return None
        except BaseException as error:
            await self._give_back(messages, error)
            raise
        return sent

    async def _give_back(self, messages: list[Message], error: BaseException) -> None:
        """Give a batch back because of an error. The error is what the caller gets to know, with a
        note if this fails too."""
        try:
            await self._consumer.nack(*messages)
        except TxnConsoleError as second:
            error.add_note(
                f"Its {len(messages)} messages could not be given back either ({second});"
                " they come again after the acknowledgement timeout."
            )

    async def _back_off(self, failures: int) -> None:
        jitter = random.random()  # noqa: S311 - spreads clients, keeps no secret
        delay = self._runtime.retry.delay(failures, 0.0, jitter=jitter)
        await self._runtime.sleep(delay or 0.0)

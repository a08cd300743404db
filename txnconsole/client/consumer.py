"""Receiving messages of a subscription and acknowledging them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Self

from txnconsole.client import arguments, calls
from txnconsole.client.answers import Acknowledged, Message, Nothing
from txnconsole.client.blocking import Block, Method
from txnconsole.client.errors import TxnConsoleError
from txnconsole.client.transaction import OpenTransaction, id_of
from txnconsole.client.transport import Transport
from txnconsole.client.wire import Call

_log = logging.getLogger(__name__)


class AsyncConsumer:
    """A consumer of a subscription. What it receives is delivered to no other consumer until it is
    acknowledged or given back, or its acknowledgement times out. Methods take messages or their
    ids. At the end of a ``with`` block it leaves."""

    def __init__(self, transport: Transport, topic: str, subscription: str, *, name: str) -> None:
        self._transport = transport
        self._topic = topic
        self._subscription = subscription
        self.name = name

    async def receive(self, max_messages: int = 100, *, wait: float = 1.0) -> list[Message]:
        """Receive up to ``max_messages``, waiting ``wait`` seconds at most for the first."""
        received = await self._transport.poll(
            lambda wait_ms: calls.receive(
                self._topic,
                self._subscription,
                consumer=self.name,
                max_messages=max_messages,
                wait_ms=wait_ms,
            ),
            wait=wait,
            done=lambda answer: bool(answer.messages),
        )
        return received.messages

    async def ack(
        self, *messages: Message | str, txn: OpenTransaction | None = None
    ) -> Acknowledged:
        """Acknowledge these messages; in a transaction all or none, with effect from its commit.
        Without one, those that a transaction holds are left alone (``dropped``).

        Raises:
            TransactionConflict: one is acknowledged already, or pending in another transaction than
                ``txn``, which can only be aborted then (PIP-31).
        """
        return await self._acknowledge(messages, "INDIVIDUAL", txn)

    async def ack_cumulative(
        self, message: Message | str, *, txn: OpenTransaction | None = None
    ) -> Acknowledged:
        """Acknowledge everything up to this message; only on EXCLUSIVE and FAILOVER subscriptions.

        Raises:
            TransactionConflict: as ``ack``.
        """
        return await self._acknowledge([message], "CUMULATIVE", txn)

    async def nack(self, *messages: Message | str) -> None:
        """Give messages back for redelivery, except those that a transaction has acknowledged."""
        if messages:
            await self._transport.perform(
                calls.negative_acknowledge(
                    self._topic, self._subscription, _ids(messages), consumer=self.name
                )
            )

    async def leave(self) -> None:
        """Give back what was received and not acknowledged, so that another consumer can take over
        at once."""
        await self._transport.perform(self._leaving())

    async def seek(
        self,
        *,
        offset: int | None = None,
        timestamp: datetime | None = None,
        earliest: bool = False,
        latest: bool = False,
        partition: int | None = None,
        force: bool = False,
        reason: str = "",
    ) -> None:
        """Move the whole subscription to one place: the next ``receive`` delivers from there.

        With ``partition`` only there; an offset needs it unless the topic has only one. ``force``,
        an operator's, aborts the transactions that hold acknowledgements; say why.

        Raises:
            ValueError: not exactly one place was given.
            TxnConsoleError: acknowledgements are pending in transactions, and no ``force``.
        """
        call = calls.seek(
            self._topic,
            self._subscription,
            {
                "offset": offset,
                "timestamp": timestamp,
                "earliest": earliest or None,
                "latest": latest or None,
            },
            partition=partition,
            force=force,
            reason=reason,
        )
        await self._transport.perform(call)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # One attempt: without it the next consumer waits until the lease ends, which is better than
        # that this caller waits for retries.
        try:
            await self._transport.attempt(self._leaving())
        except TxnConsoleError as error:
            _log.info("%s has not left: %s", self.name, error)

    def _leaving(self) -> Call[Nothing]:
        return calls.leave(self._topic, self._subscription, consumer=self.name)

    async def _acknowledge(
        self, messages: Sequence[Message | str], ack_type: str, txn: OpenTransaction | None
    ) -> Acknowledged:
        txn_id = id_of(txn)
        if not messages:
            return Acknowledged()
        call = calls.acknowledge(
            self._topic,
            self._subscription,
            _ids(messages),
            consumer=self.name,
            txn_id=txn_id,
            ack_type=ack_type,
        )
        try:
            return await self._transport.perform(call)
        except BaseException as error:
            # Also when it was interrupted or cancelled: it may not have been recorded.
            if txn is not None:
                txn.fail(error)
            raise


class Consumer(Block[AsyncConsumer]):
    __doc__ = AsyncConsumer.__doc__

    receive = Method(AsyncConsumer.receive)
    ack = Method(AsyncConsumer.ack)
    ack_cumulative = Method(AsyncConsumer.ack_cumulative)
    nack = Method(AsyncConsumer.nack)
    leave = Method(AsyncConsumer.leave)
    seek = Method(AsyncConsumer.seek)

    @property
    def name(self) -> str:
        return self.core.name


def _ids(messages: Sequence[Message | str]) -> list[str]:
    return [_id(message) for message in messages]


def _id(message: Message | str) -> str:
    if isinstance(message, str):
        return message
    if isinstance(message, Message):
        return message.message_id
    raise arguments.wrong_type("a message", "a Message or its id", message)

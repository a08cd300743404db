"""Receiving messages of a subscription and acknowledging them."""

from __future__ import annotations

from collections.abc import Sequence

from txnconsole.client import calls
from txnconsole.client.answers import Acknowledged, Message
from txnconsole.client.errors import TxnConsoleError
from txnconsole.client.transaction import Transaction
from txnconsole.client.transport import Transport


class Consumer:
    """One consumer of a subscription; what it receives is its own until acknowledged, given back
    or timed out. Messages are named by themselves or by their ids."""

    def __init__(self, transport: Transport, topic: str, subscription: str, *, name: str) -> None:
        self._transport = transport
        self._topic = topic
        self._subscription = subscription
        self.name = name

    def receive(self, max_messages: int = 100, *, wait: float = 1.0) -> list[Message]:
        """Receive up to ``max_messages``, waiting ``wait`` seconds at most for the first."""
        received = self._transport.perform(
            calls.receive(
                self._topic,
                self._subscription,
                consumer=self.name,
                max_messages=max_messages,
                wait_ms=round(wait * 1000),
            )
        )
        return received.messages

    def ack(self, *messages: Message | str, txn: Transaction | None = None) -> Acknowledged:
        """Acknowledge these messages, all or none; in a transaction, when it commits.

        Raises:
            TransactionConflict: one is acknowledged or pending elsewhere; the transaction can
                only be aborted then (PIP-31).
        """
        return self._acknowledge(messages, "INDIVIDUAL", txn)

    def ack_cumulative(
        self, message: Message | str, *, txn: Transaction | None = None
    ) -> Acknowledged:
        """Acknowledge everything up to this message; on EXCLUSIVE and FAILOVER only.

        Raises:
            TransactionConflict: as ``ack``.
        """
        return self._acknowledge([message], "CUMULATIVE", txn)

    def nack(self, *messages: Message | str) -> None:
        """Give messages back for redelivery; those that a transaction acknowledges stay."""
        if messages:
            self._transport.perform(
                calls.negative_acknowledge(
                    self._topic, self._subscription, _ids(messages), consumer=self.name
                )
            )

    def leave(self) -> None:
        """Give back what was received and not acknowledged; another may take over at once."""
        self._transport.perform(calls.leave(self._topic, self._subscription, consumer=self.name))

    def _acknowledge(
        self, messages: Sequence[Message | str], ack_type: str, txn: Transaction | None
    ) -> Acknowledged:
        if not messages:
            return Acknowledged()
        call = calls.acknowledge(
            self._topic,
            self._subscription,
            _ids(messages),
            consumer=self.name,
            txn_id=txn.txn_id if txn else None,
            ack_type=ack_type,
        )
        try:
            return self._transport.perform(call)
        except TxnConsoleError as error:
            if txn is not None:
                txn.fail(error)
            raise


def _ids(messages: Sequence[Message | str]) -> list[str]:
    return [message if isinstance(message, str) else message.message_id for message in messages]

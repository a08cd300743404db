"""Tracing spans of a finalizer's run; those of each transaction belong to the trace that decided
it.

The finalizer ends many transactions of many requests together, so its own span cannot be part of
their traces. Which trace a transaction belongs to is stored with its decision
(``coordinator.transaction.trace_parent``). So it does not matter whether the finalizer was woken
for this transaction, for another one or by a sweep, or whether a worker died in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine import tracing
from engine.coordinator.due import DueTransaction, Participant
from engine.model.transaction import EndResult
from engine.model.txn_id import TxnID

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class EndTraces:
    """The spans of one run. The spans of a broker are begun and ended by the thread that asks
    it."""

    def __init__(self, due: Iterable[DueTransaction]) -> None:
        self._transactions: dict[TxnID, Span] = {}
        if tracing.is_on():
            for command, _, traceparent in due:
                begun = tracing.begun(
                    "end transaction",
                    traceparent=traceparent,
                    txn_id=command.txn_id,
                    action=command.action.value,
                )
                if begun is not None:
                    self._transactions[command.txn_id] = begun

    def ask(self, broker: str, participants: Iterable[Participant]) -> Asked:
        """Begin the spans of a broker's participants, which is about to be asked."""
        spans: dict[tuple[TxnID, str], Span] = {}
        for participant in participants if self._transactions else ():
            txn_id, name = key = _key(participant)
            begun = tracing.begun(
                "marker" if participant.kind == "partition" else "acks",
                within=self._transactions.get(txn_id),
                txn_id=txn_id,
                broker=broker,
                **{participant.kind: name},
            )
            if begun is not None:
                spans[key] = begun
        return Asked(spans)

    def conclude(self, txn_ids: Iterable[TxnID]) -> None:
        """End the spans of transactions that have ended."""
        for txn_id in txn_ids:
            ended = self._transactions.pop(txn_id, None)
            if ended is not None:
                ended.end()

    def close(self) -> None:
        """End the run: transactions that have not ended are marked as waiting, for a participant or
        for the next run."""
        # The thread of a broker that comes late may still conclude some.
        waiting, self._transactions = self._transactions, {}
        for begun in list(waiting.values()):
            tracing.fail(begun, "waiting")
            begun.end()


class Asked:
    """The spans of one broker's participants."""

    def __init__(self, spans: dict[tuple[TxnID, str], Span]) -> None:
        self._spans = spans

    def answer(self, participant: Participant, result: EndResult, *, waiting: bool) -> None:
        """End the span of a participant: it has answered or, ``waiting``, is to be asked again."""
        if not self._spans:
            return
        asked = self._spans.get(_key(participant))
        if asked is None:
            return
        if result.marker_offset is not None:
            asked.set_attribute("marker_offset", result.marker_offset)
        if waiting:
            tracing.fail(asked, "waiting")
        asked.end()


def _key(participant: Participant) -> tuple[TxnID, str]:
    """A transaction, and its participant's name."""
    between = ":" if participant.kind == "partition" else "/"
    return participant.txn_id, f"{participant.topic}{between}{participant.key[1]}"

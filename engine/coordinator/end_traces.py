"""Spans of a finalizer's run: each transaction's in the trace that decided it.

The finalizer does many transactions of many requests together, so its own span can be within none
of them. What says where a transaction's spans belong stands with its decision
(``coordinator.transaction.trace_parent``): a wake-up that is lost, shared with others or made by a
sweep changes nothing, nor does a worker that dies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from engine import tracing
from engine.log.rows import txn_of
from engine.model.transaction import EndCommand, EndResult
from engine.model.txn_id import TxnID
from engine.postgres.database import Row

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class EndTraces:
    """The spans of one run. Those of a broker are begun and ended by the thread that asks it."""

    def __init__(self, due: Iterable[Row], commands: Mapping[TxnID, EndCommand]) -> None:
        self._transactions: dict[TxnID, Span] = {}
        if tracing.is_on():
            for row in due:
                command = commands[txn_of(row)]
                begun = tracing.begun(
                    "end transaction",
                    traceparent=row.trace_parent,
                    txn_id=command.txn_id,
                    action=command.action.value,
                )
                if begun is not None:
                    self._transactions[command.txn_id] = begun

    def ask(self, broker: str, partitions: Iterable[Row], subscriptions: Iterable[Row]) -> Asked:
        """A broker is asked to end its participants' parts."""
        return Asked(
            {
                (txn_id, participant): begun
                for name, rows in (("marker", partitions), ("acks", subscriptions))
                for row in rows
                for txn_id in [txn_of(row)]
                if txn_id in self._transactions
                for participant in [_participant(row)]
                if (
                    begun := tracing.begun(
                        name,
                        within=self._transactions[txn_id],
                        txn_id=txn_id,
                        broker=broker,
                        **{"partition" if name == "marker" else "subscription": participant},
                    )
                )
            }
            if self._transactions
            else {}
        )

    def conclude(self, txn_ids: Iterable[TxnID]) -> None:
        """These transactions have ended."""
        for txn_id in txn_ids:
            ended = self._transactions.pop(txn_id, None)
            if ended is not None:
                ended.end()

    def close(self) -> None:
        """The run is over; what has not ended waits for a participant, or for the next run."""
        for waiting in self._transactions.values():
            tracing.fail(waiting, "waiting")
            waiting.end()
        self._transactions = {}


class Asked:
    """The spans of one broker's participants."""

    def __init__(self, spans: dict[tuple[TxnID, str], Span]) -> None:
        self._spans = spans

    def answer(self, row: Row, result: EndResult, *, waiting: bool) -> None:
        """A participant has answered, or is to be asked again."""
        if not self._spans:
            return
        asked = self._spans.get((txn_of(row), _participant(row)))
        if asked is None:
            return
        if result.marker_offset is not None:
            asked.set_attribute("marker_offset", result.marker_offset)
        if waiting:
            tracing.fail(asked, "waiting")
        asked.end()


def _participant(row: Row) -> str:
    if hasattr(row, "partition"):
        return f"{row.topic}:{row.partition}"
    return f"{row.topic}/{row.subscription}"

"""What a run of the finalizer has to carry out, read with one call of the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.coordinator.statements import CONFIRMED_ACKS, DUE_ENDS, DueEnd
from engine.model.txn_id import TxnID, id_lists
from engine.postgres.session import Session

Confirmed = Mapping[TxnID, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Decided transactions, in the order in which to end them.

    Attributes:
        partitions, subscriptions: participants that have still to be asked.
        confirmed: the confirmed acknowledgement calls over several brokers, by transaction.
        low_water_marks: of the transactions' coordinators, by tc_id.
    """

    transactions: Sequence[DueEnd]
    partitions: Sequence[DueEnd]
    subscriptions: Sequence[DueEnd]
    confirmed: Confirmed
    low_water_marks: Mapping[int, int]


def read(session: Session, tc_ids: Sequence[int], limit: int) -> Due:
    """Up to ``limit`` transactions that are due now at some coordinators: first those that have not
    been tried yet, in the order of decision, then repetitions."""
    rows: dict[str, list[DueEnd]] = defaultdict(list)
    for row in map(DueEnd._make, session.ask(DUE_ENDS, tc_ids, limit)):
        rows[row.kind].append(row)
    return Due(
        transactions=rows["transaction"],
        partitions=rows["partition"],
        subscriptions=rows["subscription"],
        confirmed=_calls((row.tc_id, row.sequence, row.number) for row in rows["confirmed"]),
        low_water_marks={row.tc_id: row.number for row in rows["mark"]},
    )


def confirmed_acks(session: Session, *txn_ids: TxnID) -> Confirmed:
    """The confirmed acknowledgement calls over several brokers of decided transactions."""
    return _calls(session.ask(CONFIRMED_ACKS, *id_lists(txn_ids).values()))


def _calls(rows: Iterable[tuple[Any, ...]]) -> dict[TxnID, frozenset[int]]:
    calls: dict[TxnID, set[int]] = defaultdict(set)
    for tc_id, sequence, call_id in rows:
        calls[TxnID(tc_id, sequence)].add(call_id)
    return {txn_id: frozenset(found) for txn_id, found in calls.items()}

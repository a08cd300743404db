"""What a run of the finalizer has to carry out, read with one call of the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from engine.coordinator.statements import CONFIRMED_ACKS, DUE_ENDS, DueRow
from engine.log.rows import topic_of, txn_of
from engine.model.topic_name import TopicName
from engine.model.transaction import EndCommand
from engine.model.txn_id import TxnID, id_lists
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.session import Session

Confirmed = Mapping[TxnID, frozenset[int]]
#: What a participant is known by on its broker: its topic's id, with its partition's number or its
#: subscription's name. Participants are locked in the order of their keys.
ParticipantKey = tuple[int, Any]


class DueTransaction(NamedTuple):
    """A decided transaction: the command for its participants, when it was decided, and the trace
    that decided it."""

    command: EndCommand
    decided_at: datetime
    traceparent: str | None


class Participant(NamedTuple):
    """A partition or a subscription, as ``kind`` tells, that has still to carry out a
    transaction's end."""

    kind: str
    txn_id: TxnID
    key: ParticipantKey
    topic: TopicName
    broker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Decided transactions, in the order in which to end them.

    Attributes:
        partitions, subscriptions: participants that have still to be asked.
        low_water_marks: of the transactions' coordinators, by tc_id.
    """

    transactions: Sequence[DueTransaction]
    partitions: Sequence[Participant]
    subscriptions: Sequence[Participant]
    low_water_marks: Mapping[int, int]


def read(session: Session, tc_ids: Sequence[int], limit: int) -> Due:
    """Up to ``limit`` transactions that are due now at some coordinators: first those that have not
    been tried yet, in the order of decision, then repetitions."""
    rows: dict[str, list[DueRow]] = defaultdict(list)
    for row in map(DueRow._make, session.ask(DUE_ENDS, tc_ids, limit)):
        rows[row.kind].append(row)
    confirmed = _calls((row.tc_id, row.sequence, row.number) for row in rows["confirmed"])
    return Due(
        transactions=[_transaction(row, confirmed) for row in rows["transaction"]],
        partitions=list(map(_participant, rows["partition"])),
        subscriptions=list(map(_participant, rows["subscription"])),
        low_water_marks={row.tc_id: row.number for row in rows["mark"]},
    )


def confirmed_acks(session: Session, *txn_ids: TxnID) -> Confirmed:
    """The confirmed acknowledgement calls over several brokers of decided transactions."""
    return _calls(session.ask(CONFIRMED_ACKS, *id_lists(txn_ids).values()))


def _transaction(row: DueRow, confirmed: Confirmed) -> DueTransaction:
    txn_id = txn_of(row)
    action = TxnAction.COMMIT if row.status == TxnStatus.COMMITTING else TxnAction.ABORT
    command = EndCommand(txn_id=txn_id, action=action, confirmed=confirmed.get(txn_id, frozenset()))
    return DueTransaction(command, row.decided_at, row.trace_parent)


def _participant(row: DueRow) -> Participant:
    key = row.topic_id, row.partition if row.kind == "partition" else row.subscription
    return Participant(row.kind, txn_of(row), key, topic_of(row), row.broker)


def _calls(rows: Iterable[tuple[Any, ...]]) -> dict[TxnID, frozenset[int]]:
    calls: dict[TxnID, set[int]] = defaultdict(set)
    for tc_id, sequence, call_id in rows:
        calls[TxnID(tc_id, sequence)].add(call_id)
    return {txn_id: frozenset(found) for txn_id, found in calls.items()}

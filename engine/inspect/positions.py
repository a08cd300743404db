"""Where unfinished transactions are in the logs. However many they are, the coordinators are asked
once, and each broker once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from engine.coordinator.rows import whole_transaction
from engine.inspect.reading import Reading
from engine.log.rows import partition_of, subscription_of, txn_of
from engine.model.errors import EngineError
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import ParticipantState, PartitionParticipant, Transaction
from engine.model.txn_id import TxnID, id_lists
from engine.postgres.database import Database
from engine.postgres.session import Row


class Position(NamedTuple):
    """An entry of a log, by the part of a message id that names it."""

    ledger_id: int
    entry_id: int


class Extent(NamedTuple):
    """An entry, and the last offset that it holds; the first is its ``entry_id``."""

    position: Position
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Transactions with their participants, and where they are in the logs; archived and unknown
    transactions are left out.

    Attributes:
        starts: the first entry that a transaction has open in a partition.
        acks: the partitions where each holds acknowledgements of a subscription, with the last
            entry of a cumulative one, None without one.
        unavailable: brokers that did not answer, and why.
    """

    transactions: tuple[Transaction, ...]
    starts: Mapping[tuple[TxnID, PartitionName], Position]
    acks: Mapping[tuple[TxnID, SubscriptionName], Mapping[PartitionName, Position | None]]
    unavailable: Mapping[str, str]


def positions(reading: Reading, coordinators: Database, txn_ids: Iterable[TxnID]) -> Positions:
    """Ask for many transactions at once.

    Raises:
        CoordinatorUnavailable: the coordinators' database cannot be reached.
    """
    with coordinators.session() as session:
        rows = session.all("whole_txns", **id_lists(txn_ids))
    transactions = tuple(map(whole_transaction, rows))
    starts: dict[tuple[TxnID, PartitionName], Position] = {}
    acks: defaultdict[tuple[TxnID, SubscriptionName], dict[PartitionName, Position | None]]
    acks = defaultdict(dict)
    unavailable: dict[str, str] = {}
    for broker, parts in _open_parts(transactions).items():
        written = [(txn_id, part) for txn_id, part in parts if part is not None]
        holders = sorted({txn_id for txn_id, part in parts if part is None})
        try:
            found, held = reading.brokers.get(broker).snapshot(
                (
                    "first_open_entries",
                    id_lists(txn_id for txn_id, _ in written)
                    | {
                        "topic_ids": [part.topic_id for _, part in written],
                        "numbers": [part.partition.number for _, part in written],
                    },
                ),
                ("acks_held", id_lists(holders)),
            )
        except EngineError as error:
            unavailable[broker] = error.message
            continue
        starts |= {(txn_of(row), partition_of(row)): _position(row) for row in found}
        for row in held:
            last = None if row.ledger_id is None else _position(row)
            acks[txn_of(row), subscription_of(row)][partition_of(row)] = last
    return Positions(transactions=transactions, starts=starts, acks=acks, unavailable=unavailable)


def start(reading: Reading, partition: PartitionName, txn_id: TxnID) -> Position | None:
    """The first entry that a transaction has open in a partition, or in its sidecar log, whether or
    not its coordinator knows of it; None when it is not ongoing there.

    Raises:
        As :meth:`Reading.view`.
    """
    with reading.view(partition) as view:
        found = view.session.one(
            "first_open_entries",
            **id_lists([txn_id]),
            topic_ids=[view.topic_id],
            numbers=[partition.number],
        )
    return None if found is None else _position(found)


def entry_at(reading: Reading, partition: PartitionName, offset: int) -> Extent | None:
    """The entry of a partition that holds an offset; None when none does. Nothing is read but its
    header, so a partition that is offline answers too.

    Raises:
        As :meth:`Reading.view`.
    """
    with reading.view(partition) as view:
        found = view.one("entry_at", offset=offset)
    if found is None or found.first_offset > offset:
        return None
    return Extent(Position(found.ledger_id, found.first_offset), found.last_offset)


def _open_parts(
    transactions: Iterable[Transaction],
) -> dict[str, list[tuple[TxnID, PartitionParticipant | None]]]:
    """The transactions that may be open on each broker, with the partition; None in its place
    stands for acknowledgements."""
    found: dict[str, list[tuple[TxnID, PartitionParticipant | None]]] = defaultdict(list)
    for one in transactions:
        for part in one.partitions:
            if part.state is ParticipantState.PENDING:
                found[part.broker].append((one.txn_id, part))
        for acks in one.subscriptions:
            if acks.state is ParticipantState.PENDING:
                found[acks.broker].append((one.txn_id, None))
    return found


def _position(row: Row) -> Position:
    return Position(row.ledger_id, row.entry_id)

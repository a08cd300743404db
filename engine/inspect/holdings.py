"""What transactions hold, and what ending many of them at once would change.

Each database is asked once, whatever the number of transactions: a list shows this for a whole
page, a bulk abort for all of its transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.inspect.reading import Reading
from engine.log.rows import partition_of, txn_of
from engine.model.errors import EngineError
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID, id_lists
from engine.postgres.database import Database
from engine.postgres.session import Row

#: How many participating partitions, and subscriptions, one question looks up on their brokers.
_MEMBERS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a transaction takes part in, and holds.

    Attributes:
        messages, acks: None when a broker that knows them cannot be asked.
        holds_back: how many offsets are hidden from readers in the partitions in which this is the
            transaction that holds the stable position.
    """

    partitions: int
    subscriptions: int
    messages: int | None
    acks: int | None
    holds_back: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEffect:
    """What ending several transactions would do in a partition. ``hidden``: how many offsets are
    hidden from readers there now, by whatever transaction."""

    partition: PartitionName
    transactions: int
    messages: int
    hidden: int
    stable_position: int
    stable_position_after: int

    @property
    def offsets_freed(self) -> int:
        """By how many offsets the stable position would move."""
        return self.stable_position_after - self.stable_position


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEffect:
    """What ending several transactions at once would do.

    Attributes:
        acks: how many acknowledged messages they hold.
        complete: False when not all participants could be looked at.
        unavailable: brokers that did not answer, and why.
    """

    partitions: tuple[PartitionEffect, ...]
    acks: int
    complete: bool
    unavailable: Mapping[str, str]

    @property
    def moving(self) -> tuple[PartitionEffect, ...]:
        """The partitions whose stable position would move, the furthest first."""
        moving = [each for each in self.partitions if each.offsets_freed > 0]
        return tuple(sorted(moving, key=lambda each: each.offsets_freed, reverse=True))

    @property
    def messages(self) -> int:
        """How many messages they have written."""
        return sum(each.messages for each in self.partitions)


def holdings(
    reading: Reading, database: Database, txn_ids: Iterable[TxnID]
) -> dict[TxnID, Holding]:
    """What each transaction holds; archived and unknown ones hold nothing.

    Raises:
        CoordinatorUnavailable: nothing is known without the coordinators.
    """
    ids = list(dict.fromkeys(txn_ids))
    if not ids:
        return {}
    asked = id_lists(ids)
    recorded, members, subscribed = database.snapshot(
        ("holdings_of_txns", asked),
        ("open_members", asked | {"limit": _MEMBERS}),
        ("open_subscriptions", asked | {"limit": _MEMBERS}),
    )
    found = {
        txn_of(row): Holding(
            partitions=row.partitions,
            subscriptions=row.subscriptions,
            messages=row.messages,
            acks=row.acks,
            holds_back=0,
        )
        for row in recorded
    }
    held = _held(reading, "open_holdings", members, subscribed)
    for row in held.spans:
        holding = found[txn_of(row)]
        found[txn_of(row)] = replace(
            holding,
            messages=(holding.messages or 0) + row.messages,
            holds_back=(holding.holds_back or 0) + max(0, row.hidden),
        )
    for row in held.acks:
        found[txn_of(row)] = replace(
            found[txn_of(row)], acks=(found[txn_of(row)].acks or 0) + row.messages
        )
    for row in members:
        if row.broker in held.unavailable:
            found[txn_of(row)] = replace(found[txn_of(row)], messages=None, holds_back=None)
    for row in subscribed:
        if row.broker in held.unavailable:
            found[txn_of(row)] = replace(found[txn_of(row)], acks=None)
    return found


def joint_effect(reading: Reading, database: Database, txn_ids: Iterable[TxnID]) -> JointEffect:
    """What aborting some transactions would do to the partitions that they have written to, and how
    many acknowledged messages it would give back.

    Raises:
        CoordinatorUnavailable: nothing is known without the coordinators.
    """
    asked = {**id_lists(dict.fromkeys(txn_ids)), "limit": _MEMBERS}
    members, subscribed = database.snapshot(("open_members", asked), ("open_subscriptions", asked))
    held = _held(reading, "joint_effect", members, subscribed)
    return JointEffect(
        partitions=tuple(sorted(map(_effect, held.spans), key=lambda each: each.partition)),
        acks=sum(row.messages for row in held.acks),
        complete=max(len(members), len(subscribed)) < _MEMBERS and not held.unavailable,
        unavailable=held.unavailable,
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """The rows of brokers: of the partitions, and of the subscriptions."""

    spans: list[Row]
    acks: list[Row]
    unavailable: Mapping[str, str]


def _held(reading: Reading, spans: str, members: Sequence[Row], subscribed: Sequence[Row]) -> _Held:
    """Ask each participating broker once; ``spans``: the statement about its partitions."""
    found = _Held([], [], unavailable := {})
    for broker in sorted({row.broker for row in (*members, *subscribed)}):
        partitions = [row for row in members if row.broker == broker]
        subscriptions = [row for row in subscribed if row.broker == broker]
        numbers = {"numbers": [row.number for row in partitions]}
        names = {"names": [row.name for row in subscriptions]}
        try:
            held, acks = reading.brokers.get(broker).snapshot(
                (spans, _ids(partitions) | numbers), ("acks_of_txns", _ids(subscriptions) | names)
            )
        except EngineError as error:
            unavailable[broker] = error.message
            continue
        found.spans.extend(held)
        found.acks.extend(acks)
    return found


def _effect(row: Row) -> PartitionEffect:
    return PartitionEffect(
        partition=partition_of(row),
        transactions=row.transactions,
        messages=row.messages,
        hidden=row.hidden,
        stable_position=row.stable_position,
        stable_position_after=row.stable_position_after,
    )


def _ids(rows: Sequence[Row]) -> dict[str, object]:
    return {**id_lists(map(txn_of, rows)), "topic_ids": [row.topic_id for row in rows]}

"""The cross-check of coordinators, buffers and pending acks (reference/kafka.md §8).

The databases have no common snapshot, so the order of reading matters. First comes what a
participant holds open (one statement on its broker); then what the coordinator knows of those
transactions (one snapshot of its database); then, for what looks wrong, whether the participant
still holds it. In this order healthy traffic raises no alarm:

- A header exists before anybody can name its id, and outcomes are kept for ever. So what was open
  and is unknown to the coordinator afterwards was never issued (ORPHAN).
- A participant is registered, durably, before it takes anything. So what was open and is not
  registered afterwards came without being registered (UNREGISTERED).
- A participant has carried out an end, durably, before the coordinator records it. So what is
  recorded as done and is still open at the third look was missed (MISSED_*).
- A participant's fence and what it holds change in one SQL transaction, and are read in one
  statement (STALE).

OVERDUE, STUCK_FINALIZE and LATE concern the coordinator alone, and are judged by its clock in one
statement.

The walk goes page by page over what is open and nothing else, so its cost does not depend on what
has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.coordinator import rows
from engine.coordinator.coordinator import Coordinator
from engine.inspect.reading import Reading
from engine.log.rows import partition_of, subscription_of, txn_of
from engine.model.errors import EngineError
from engine.model.hanging import Patience, Verdict, judge_header, judge_holder
from engine.model.page import check_limit, decode_cursor, encode_cursor, foreign_cursor
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import ParticipantState, Transaction
from engine.model.txn_id import TxnID, id_lists
from engine.model.txn_status import Outcome, outcome_of
from engine.postgres.database import Database, Row

#: How many open things one page looks at, and how many of them one statement reads.
_LOOK = 2000
_BATCH = 500
#: How many recovering partitions one answer names.
_NAMED = 50
_START = (-1, -1, -1)
_Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A participant that a decided transaction waits for."""

    participant: str
    attempts: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging:
    """A transaction that hangs, or a participant's part of one.

    Of a participant: either ``partition``, with what it holds back, or ``subscription``.
    ``transaction`` is its header, None when there is none.
    """

    txn_id: TxnID
    verdict: Verdict
    broker: str | None = None
    partition: PartitionName | None = None
    subscription: SubscriptionName | None = None
    transaction: Transaction | None = None
    outcome: Outcome | None = None
    first_offset: int | None = None
    messages: int | None = None
    age_ms: int | None = None
    hidden_messages: int | None = None
    waiting_for: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingPage:
    """A page of what hangs. ``unavailable``: brokers and partitions that could not be looked at,
    and why."""

    items: tuple[Hanging, ...]
    next_cursor: str | None
    unavailable: Mapping[str, str]


class CrossCheck:
    """Walks over what is open, in stages: stage 0 is the coordinators' transactions; then each
    broker has two stages, an odd one for its partitions and an even one for its subscriptions."""

    def __init__(
        self, reading: Reading, coordinator: Coordinator, database: Database, patience: Patience
    ) -> None:
        self._reading = reading
        self._coordinator = coordinator
        self._database = database
        self._patience = patience

    def page(self, *, limit: int, cursor: str | None) -> HangingPage:
        """See :meth:`engine.inspect.inspector.Inspector.hanging`."""
        check_limit(limit)
        stage, key = _place(cursor)
        brokers = list(self._reading.brokers)
        unavailable: dict[str, str] = {}
        found: list[Hanging] = []
        looked = 0
        while stage <= 2 * len(brokers):
            try:
                batch = self._batch(stage, key, brokers)
            except EngineError as error:
                if stage == 0 or error.code == "CoordinatorUnavailable":
                    raise
                unavailable[brokers[(stage - 1) // 2].name] = error.message
                batch = []
            for at, hanging in batch:
                key = at
                if hanging is not None:
                    found.append(hanging)
                if len(found) == limit:
                    return self._answer(found, stage, key, unavailable)
            looked += len(batch)
            if len(batch) < _BATCH:
                stage, key = stage + 1, _START
            if looked >= _LOOK and stage <= 2 * len(brokers):
                return self._answer(found, stage, key, unavailable)
        return self._answer(found, None, key, unavailable)

    def _answer(
        self, found: list[Hanging], stage: int | None, key: _Key, unavailable: dict[str, str]
    ) -> HangingPage:
        return HangingPage(
            items=tuple(found),
            next_cursor=None if stage is None else encode_cursor(stage, *key),
            unavailable=unavailable | self._recovering(unavailable),
        )

    def _batch(
        self, stage: int, key: _Key, brokers: Sequence[Database]
    ) -> list[tuple[_Key, Hanging | None]]:
        """The next open things of a stage after a key: the key of each, and what is wrong with it,
        None for nothing."""
        if stage == 0:
            return list(self._headers(key))
        kind = _SPANS if stage % 2 else _ACKS
        return list(self._held(brokers[(stage - 1) // 2], kind, key))

    def _headers(self, key: _Key) -> Iterator[tuple[_Key, Hanging | None]]:
        with self._database.session() as session:
            found = session.all("live_txns", tc_id=key[1], sequence=key[2], limit=_BATCH)
            live = [rows.transaction(row) for row in found]
            verdicts = [judge_header(one, self._patience) for one in live]
            judged = list(zip(live, verdicts, strict=True))
            decided = [one.txn_id for one, verdict in judged if verdict and one.decided_at]
            waiting = session.all("waiting_for", **id_lists(decided), limit=_LOOK)
        for one, verdict in judged:
            at = (0, one.txn_id.tc_id, one.txn_id.sequence)
            if verdict is None:
                yield at, None
                continue
            hanging = Hanging(
                txn_id=one.txn_id,
                verdict=verdict,
                transaction=one,
                outcome=outcome_of(one.status),
                age_ms=one.age_ms,
                waiting_for=tuple(_waiting(row) for row in waiting if txn_of(row) == one.txn_id),
            )
            yield at, hanging

    def _held(
        self, database: Database, kind: _Kind, key: _Key
    ) -> Iterator[tuple[_Key, Hanging | None]]:
        """As :meth:`_batch`, for one kind of participants of one broker."""
        place = {"holder": key[0], "tc_id": key[1], "sequence": key[2]}
        with database.session() as session:
            held = session.all(kind.open, **place, limit=_BATCH)
        if not held:
            return
        known = self._known(database, kind, held)
        suspects: dict[_Key, Hanging] = {}
        for row in held:
            verdict = known.judge(row, kind)
            if verdict is not None:
                suspects[kind.key(row)] = known.finding(database, row, kind, verdict)
        still = _still(database, kind, suspects)
        for row in held:
            at = kind.key(row)
            yield at, suspects.get(at) if at in still else None

    def _known(self, database: Database, kind: _Kind, held: list[Row]) -> _Known:
        """What the coordinators know of the transactions in some rows, from one snapshot."""
        params: dict[str, object] = {
            **id_lists(map(txn_of, held)),
            "topic_ids": [row.topic_id for row in held],
            "members": [kind.member(row) for row in held],
        }
        if kind is _ACKS:
            params["broker"] = database.name
        ids = {txn_of(row) for row in held}
        headers, memberships = self._database.snapshot(
            ("get_txns", id_lists(ids)), (kind.memberships, params)
        )
        transactions = {txn_of(row): rows.transaction(row) for row in headers}
        known = transactions
        if headless := ids - transactions.keys():  # Outcomes outlive headers.
            known = known | self._coordinator.get_many(headless)
        return _Known(
            transactions,
            {
                txn_id: outcome_of(known[txn_id].status) if txn_id in known else None
                for txn_id in ids
            },
            {
                (txn_of(row), row.topic_id, row.member): ParticipantState(row.state)
                for row in memberships
            },
        )

    def _recovering(self, unavailable: Mapping[str, str]) -> dict[str, str]:
        """Partitions that a crash has emptied and nobody has rebuilt yet: what is open in them is
        not known."""
        found, _ = self._reading.on_each("headless", limit=_NAMED)
        return {
            f"{row.topic}:{row.number}": "recovering"
            for database, headless in found.items()
            if database.name not in unavailable
            for row in headless
        }


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of participants: the names of its statements, and the columns that name the
    participant in their rows."""

    open: str
    memberships: str
    still_open: str
    holder: str
    member_name: str

    def key(self, row: Row) -> _Key:
        return getattr(row, self.holder), row.tc_id, row.sequence

    def member(self, row: Row) -> object:
        return getattr(row, self.member_name)


_SPANS = _Kind("open_spans", "partition_memberships", "spans_still_open", "partition_id", "number")
_ACKS = _Kind("open_acks", "subscription_memberships", "acks_still_open", "subscription_id", "name")


@dataclass(frozen=True, slots=True)
class _Known:
    """What the coordinators know of some transactions, and the verdicts that follow from it."""

    transactions: Mapping[TxnID, Transaction]
    outcomes: Mapping[TxnID, Outcome | None]
    memberships: Mapping[tuple[TxnID, int, object], ParticipantState]

    def judge(self, row: Row, kind: _Kind) -> Verdict | None:
        txn_id = txn_of(row)
        transaction = self.transactions.get(txn_id)
        return judge_holder(
            status=transaction.status if transaction else None,
            outcome=self.outcomes[txn_id],
            membership=self.memberships.get((txn_id, row.topic_id, kind.member(row))),
            fenced=row.fenced,
            offline=kind is _SPANS and not row.online,
        )

    def finding(self, database: Database, row: Row, kind: _Kind, verdict: Verdict) -> Hanging:
        txn_id = txn_of(row)
        found = Hanging(
            txn_id=txn_id,
            verdict=verdict,
            broker=database.name,
            transaction=self.transactions.get(txn_id),
            outcome=self.outcomes[txn_id],
            messages=row.messages,
        )
        if kind is _ACKS:
            return replace(found, subscription=subscription_of(row))
        return replace(
            found,
            partition=partition_of(row),
            first_offset=row.first_offset,
            age_ms=row.age_ms,
            hidden_messages=row.hidden if row.blocks else 0,
        )


def _still(database: Database, kind: _Kind, suspects: Mapping[_Key, Hanging]) -> set[_Key]:
    """The keys of those suspects that the participants still hold."""
    if not suspects:
        return set()
    holders, tc_ids, sequences = zip(*suspects, strict=True)
    params: dict[str, object] = {
        "holders": list(holders),
        "tc_ids": list(tc_ids),
        "sequences": list(sequences),
    }
    if kind is _SPANS:
        params["first_offsets"] = [hanging.first_offset for hanging in suspects.values()]
    with database.session() as session:
        found = session.all(kind.still_open, **params)
    return {(row.holder, row.tc_id, row.sequence) for row in found}


def _waiting(row: Row) -> Waiting:
    return Waiting(participant=row.participant, attempts=row.attempts, last_error=row.last_error)


def _place(cursor: str | None) -> tuple[int, _Key]:
    if cursor is None:
        return 0, _START
    try:
        stage, holder, tc_id, sequence = map(int, decode_cursor(cursor, 4))
    except ValueError as error:
        raise foreign_cursor() from error
    if stage < 0:
        raise foreign_cursor()
    return stage, (holder, tc_id, sequence)

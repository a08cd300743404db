"""The cross-check of coordinators, buffers and pending acks (reference/kafka.md §8).

The databases have no common snapshot, so the order of reading matters. First comes what a
participant holds open (one statement on its broker); then what the coordinators know of those
transactions (one snapshot of their database); then, for what looks wrong, whether the participant
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

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import attrgetter
from typing import NamedTuple

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
from engine.postgres.database import Database
from engine.postgres.session import Params, Row

#: How many open things one page looks at, and how many of them one statement reads.
_LOOK = 2000
_BATCH = 500
#: How many recovering partitions one answer names.
_NAMED = 50
_START = (-1, -1, -1)
_Key = tuple[int, int, int]
#: What is open: the key of each, and what is wrong with it, None for nothing.
_Open = list[tuple[_Key, "Hanging | None"]]


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
    """Walks over what is open, in stages: stage 0 is the coordinators' transactions; then come each
    broker's partitions and subscriptions. The first batches of all brokers' stages are read
    together, and judged by one snapshot of the coordinators' database."""

    def __init__(
        self, reading: Reading, coordinator: Coordinator, database: Database, patience: Patience
    ) -> None:
        of_brokers = product(reading.brokers, (_SPANS, _ACKS))
        self._stages = [_Stage(number, *each) for number, each in enumerate(of_brokers, 1)]
        self._coordinator = coordinator
        self._database = database
        self._patience = patience

    def page(self, *, limit: int, cursor: str | None) -> HangingPage:
        """See :meth:`engine.inspect.inspector.Inspector.hanging`."""
        check_limit(limit)
        stage, key = _place(cursor)
        unavailable: dict[str, str] = {}
        read: dict[int, _Open] = {}
        found: list[Hanging] = []
        looked = 0
        while stage <= len(self._stages):
            if stage == 0:
                read[stage] = list(self._headers(key))
            elif stage not in read:
                left = self._stages[stage - 1 :]
                batches, faults = self._held(left if key == _START else left[:1], key)
                read |= batches
                unavailable |= faults
            batch = read.pop(stage)
            for at, hanging in batch:
                key = at
                if hanging is not None:
                    found.append(hanging)
                if len(found) == limit:
                    return _answer(found, stage, key, unavailable)
            looked += len(batch)
            if len(batch) < _BATCH:
                stage, key = stage + 1, _START
            if looked >= _LOOK and stage <= len(self._stages):
                return _answer(found, stage, key, unavailable)
        return _answer(found, None, key, unavailable)

    def _headers(self, key: _Key) -> Iterator[tuple[_Key, Hanging | None]]:
        with self._database.session() as session:
            found = session.all("live_txns", tc_id=key[1], sequence=key[2], limit=_BATCH)
            live = [rows.transaction(row) for row in found]
            verdicts = [judge_header(one, self._patience) for one in live]
            judged = list(zip(live, verdicts, strict=True))
            decided = [one.txn_id for one, verdict in judged if verdict and one.decided_at]
            waiting: defaultdict[TxnID, list[Waiting]] = defaultdict(list)
            if decided:
                for row in session.all("waiting_for", **id_lists(decided), limit=_LOOK):
                    waiting[txn_of(row)].append(_waiting(row))
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
                waiting_for=tuple(waiting[one.txn_id]),
            )
            yield at, hanging

    def _held(self, stages: Sequence[_Stage], key: _Key) -> tuple[dict[int, _Open], dict[str, str]]:
        """The next batch after a key of each of some brokers' stages, and what could not be looked
        at, and why."""
        batches: dict[int, _Open] = {stage.number: [] for stage in stages}
        faults: dict[str, str] = {}
        held: _Held = {}
        for database, group in groupby(stages, attrgetter("database")):
            try:
                there, recovering = _held_on(database, list(group), key)
            except EngineError as error:
                faults[database.name] = error.message
                continue
            held |= there
            faults |= recovering
        known = self._known(held)
        for database, group in groupby(held, attrgetter("database")):
            try:
                batches |= _judged(database, {stage: held[stage] for stage in group}, known)
            except EngineError as error:
                faults[database.name] = error.message
        return batches, faults

    def _known(self, held: _Held) -> _Known:
        """What the coordinators know of the transactions that hold something, from one snapshot."""
        ids = {txn_of(row) for rows_of in held.values() for row in rows_of}
        if not ids:
            return _Known({}, {}, {})
        memberships = [
            (stage.kind.memberships, stage.named(rows_of)) for stage, rows_of in held.items()
        ]
        headers, *members = self._database.snapshot(("get_txns", id_lists(ids)), *memberships)
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
                (stage, txn_of(row), row.topic_id, row.member): ParticipantState(row.state)
                for stage, found in zip(held, members, strict=True)
                for row in found
            },
        )


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


class _Stage(NamedTuple):
    """A broker's participants of one kind. ``number``: its place in the walk, as cursors have
    it."""

    number: int
    database: Database
    kind: _Kind

    def named(self, held: Sequence[Row]) -> Params:
        """Who holds something, to ask whether they are their transactions' members."""
        params: dict[str, object] = {
            **id_lists(map(txn_of, held)),
            "topic_ids": [row.topic_id for row in held],
            "members": [self.kind.member(row) for row in held],
        }
        return params | ({"broker": self.database.name} if self.kind is _ACKS else {})


#: What the participants of some stages hold.
_Held = dict[_Stage, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the coordinators know of some transactions, and the verdicts that follow from it.
    ``memberships``: by stage, transaction, topic and member."""

    transactions: Mapping[TxnID, Transaction]
    outcomes: Mapping[TxnID, Outcome | None]
    memberships: Mapping[tuple[_Stage, TxnID, int, object], ParticipantState]

    def judge(self, row: Row, stage: _Stage) -> Verdict | None:
        txn_id = txn_of(row)
        transaction = self.transactions.get(txn_id)
        member = stage, txn_id, row.topic_id, stage.kind.member(row)
        return judge_holder(
            status=transaction.status if transaction else None,
            outcome=self.outcomes[txn_id],
            membership=self.memberships.get(member),
            fenced=row.fenced,
            offline=stage.kind is _SPANS and not row.online,
        )

    def finding(self, row: Row, stage: _Stage, verdict: Verdict) -> Hanging:
        txn_id = txn_of(row)
        found = Hanging(
            txn_id=txn_id,
            verdict=verdict,
            broker=stage.database.name,
            transaction=self.transactions.get(txn_id),
            outcome=self.outcomes[txn_id],
            messages=row.messages,
        )
        if stage.kind is _ACKS:
            return replace(found, subscription=subscription_of(row))
        return replace(
            found,
            partition=partition_of(row),
            first_offset=row.first_offset,
            age_ms=row.age_ms,
            hidden_messages=row.hidden if row.blocks else 0,
        )


def _answer(
    found: list[Hanging], stage: int | None, key: _Key, unavailable: dict[str, str]
) -> HangingPage:
    return HangingPage(
        items=tuple(found),
        next_cursor=None if stage is None else encode_cursor(stage, *key),
        unavailable=unavailable,
    )


def _held_on(
    database: Database, stages: Sequence[_Stage], key: _Key
) -> tuple[_Held, dict[str, str]]:
    """What participants of a broker hold after a key, and its partitions that a crash has emptied
    and nobody has rebuilt yet: what is open in them is not known."""
    place = {"holder": key[0], "tc_id": key[1], "sequence": key[2], "limit": _BATCH}
    with database.session() as session:
        # In this order: a partition may be rebuilt in between.
        headless, *found = session.batch(
            ("headless", {"limit": _NAMED}), *((stage.kind.open, place) for stage in stages)
        )
    recovering = {f"{row.topic}:{row.number}": "recovering" for row in headless}
    return dict(zip(stages, found, strict=True)), recovering


def _judged(database: Database, held: _Held, known: _Known) -> dict[int, _Open]:
    """By stage what is open on one broker. What looks wrong is looked at once more."""
    suspects = {
        stage: {
            stage.kind.key(row): known.finding(row, stage, verdict)
            for row in found
            if (verdict := known.judge(row, stage)) is not None
        }
        for stage, found in held.items()
    }
    doubted = [stage for stage, wrong in suspects.items() if wrong]
    asked = [(stage.kind.still_open, _doubts(stage.kind, suspects[stage])) for stage in doubted]
    still: dict[_Stage, set[_Key]] = {}
    if asked:
        with database.session() as session:
            for stage, open_yet in zip(doubted, session.batch(*asked), strict=True):
                still[stage] = {(row.holder, row.tc_id, row.sequence) for row in open_yet}
    return {
        stage.number: [
            (at, suspects[stage].get(at) if at in still.get(stage, ()) else None)
            for at in map(stage.kind.key, found)
        ]
        for stage, found in held.items()
    }


def _doubts(kind: _Kind, suspects: Mapping[_Key, Hanging]) -> Params:
    """The keys of suspects, to ask which of them their participants still hold."""
    holders, tc_ids, sequences = zip(*suspects, strict=True)
    params: dict[str, object] = {
        "holders": list(holders),
        "tc_ids": list(tc_ids),
        "sequences": list(sequences),
    }
    if kind is _SPANS:
        params["first_offsets"] = [hanging.first_offset for hanging in suspects.values()]
    return params


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

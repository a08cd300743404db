"""What clients do: random, with everything in it without which a checker finds nothing.

A client is a generator of requests that is sent their answers, so that threads can drive it against
servers and a loop can drive it, step by step, against a model. Besides the plain course of things
it retries with the same keys, acknowledges what was delivered long ago or to somebody else, goes on
using transactions that have ended, ends them the opposite way, and lets them expire. Requests that
are lost, doubled or carried out late are the network's (:mod:`tests.checker.network`).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.checker.history import (
    Ack,
    Begin,
    End,
    Extend,
    Fetch,
    Look,
    Nack,
    Op,
    Produce,
    Receive,
    Txn,
)

Requests = Generator[Op, Op, Any]
_DRAINS = 2000


@dataclass(frozen=True)
class Setting:
    """What there is to work on.

    Attributes:
        partitions: ``topic:number``, as many as the topics have; operators add some.
        subscriptions: ``topic|name`` of SHARED ones, whose messages anybody may acknowledge; one
            that is named twice is used twice as often.
        cumulative: of those with one consumer at a time, which take cumulative acknowledgements.
        lease_ms: for how long that consumer stays the one, after its last call.
        keyed: those of ``subscriptions`` on which a key's messages go to one consumer at a time.
        sidecars: topics whose transactions' messages take their offsets when they commit.
        timeouts_ms: of transactions; a client takes one at random.
    """

    partitions: list[str]
    subscriptions: Sequence[str]
    cumulative: Sequence[str] = ()
    lease_ms: int = 0
    keyed: frozenset[str] = frozenset()
    sidecars: frozenset[str] = frozenset()
    timeouts_ms: Sequence[int] = (60_000,)
    max_batch: int = 3


@dataclass
class Common:
    """What clients know of one another: enough to get in each other's way."""

    txns: deque[Txn] = field(default_factory=lambda: deque(maxlen=30))
    delivered: deque[tuple[str, tuple[str, int, str]]] = field(
        default_factory=lambda: deque(maxlen=60)
    )


class Client:
    """One client; ``name`` is unique in a history."""

    def __init__(self, name: str, setting: Setting, common: Common, rng: Random) -> None:
        self._name = name
        self._setting = setting
        self._common = common
        self._rng = rng
        self._values = (f"{name}.{number}" for number in itertools.count())
        self._sequence = itertools.count()
        self._read_from: dict[str, int] = {}

    def run(self) -> Requests:
        """Work without end."""
        while True:
            yield from self._choose(
                (24, self._transaction),
                (8, self._produce_plainly),
                (14, self._fetch),
                (8, self._consume),
                (5, self._meddle),
                (2, self._group),
                (4 if self._setting.cumulative else 0, self._consume_in_order),
            )

    def _choose(self, *weighted: tuple[int, Any]) -> Requests:
        weights = [weight for weight, _ in weighted]
        [(_, action)] = self._rng.choices(weighted, weights)
        return (yield from action())

    def _insist(self, op: Op, attempts: int = 4) -> Requests:
        """Send a request again while nothing is known of it, as a client library does."""
        for _ in range(attempts):
            answer = yield op
            if answer.answer != "info":
                return answer
        return answer

    # ------------------------------------------------------------------ transactions

    def _transaction(self) -> Requests:
        txn = yield from self._begin()
        if txn is None:
            return
        for _ in range(self._rng.randint(1, 4)):
            alive = yield from self._choose(
                (10, lambda: self._produce(txn)),
                (8, lambda: self._consume(txn)),
                (1, lambda: self._look(txn)),
                (2, lambda: self._extend(txn)),
                (1, lambda: self._ack_old(txn)),
            )
            if alive is False:
                break
        yield from self._choose(
            (12, lambda: self._end(txn, commit=True)),
            (6, lambda: self._end(txn, commit=False)),
            (1, lambda: self._look(txn)),  # and leaves it to its deadline
        )
        if self._rng.random() < 0.15:
            yield from self._abuse(txn)

    def _begin(self) -> Requests:
        answer = yield from self._insist(Begin(timeout_ms=self._timeout()))
        if answer.answer != "ok":
            return None
        self._common.txns.append(answer.txn)
        return answer.txn

    def _end(self, txn: Txn, *, commit: bool) -> Requests:
        op = End(commit=(txn,)) if commit else End(abort=(txn,))
        return (yield from self._insist(op))

    def _abuse(self, txn: Txn) -> Requests:
        """What must be refused, or repeat what has been answered."""
        yield from self._choose(
            (3, lambda: self._produce(txn)),
            (3, lambda: self._ack_old(txn)),
            (2, lambda: self._end(txn, commit=self._rng.random() < 0.5)),
            (1, lambda: self._extend(txn)),
            (2, lambda: self._look(txn)),
        )

    def _extend(self, txn: Txn) -> Requests:
        return (yield Extend(txn=txn, timeout_ms=self._timeout()))

    def _look(self, txn: Txn) -> Requests:
        return (yield Look(txn=txn))

    def _meddle(self) -> Requests:
        """An operator, or another instance of the same program, at somebody else's transaction."""
        if self._common.txns:
            txn = self._rng.choice(list(self._common.txns))
            yield from self._choose(
                (2, lambda: self._end(txn, commit=False)),
                (2, lambda: self._look(txn)),
                (2, lambda: self._ack_old(txn)),
                (4, lambda: self._ack_old(None)),
                (3, lambda: self._produce(txn)),
            )

    def _group(self) -> Requests:
        """A sink's batch: several transactions, one decision."""
        commit, abort = [], []
        for _ in range(self._rng.randint(2, 3)):
            txn = yield from self._begin()
            if txn is None:
                continue
            yield from self._produce(txn)
            (commit if self._rng.random() < 0.8 else abort).append(txn)
        if not commit and not abort:
            return
        # A group's key is for ever: no other history may have it.
        group = f"{self._setting.partitions[0]}/{self._name}/{next(self._sequence)}"
        end = End(commit=tuple(commit), abort=tuple(abort), group=group, guard=self._name)
        yield from self._insist(end)
        if self._rng.random() < 0.2:
            yield end  # the same group again changes nothing
        if self._rng.random() < 0.1:
            yield End(commit=end.abort, abort=end.commit, group=group, guard="somebody else")

    # ------------------------------------------------------------------ messages

    def _produce_plainly(self) -> Requests:
        return (yield from self._produce(None))

    def _produce(self, txn: Txn | None) -> Requests:
        count = self._rng.randint(1, self._setting.max_batch)
        op = Produce(
            partition=self._rng.choice(self._setting.partitions),
            values=tuple(itertools.islice(self._values, count)),
            txn=txn,
            producer=self._name,
            sequence=next(self._sequence),
        )
        answer = yield from self._insist(op)
        return answer.answer == "ok"

    def _fetch(self) -> Requests:
        partition = self._rng.choice(self._setting.partitions)
        kind = self._rng.random()
        start = self._read_from.get(partition, 0) if kind < 0.7 else self._rng.randint(0, 40)
        answer = yield Fetch(
            partition=partition,
            from_offset=start,
            max_messages=self._rng.choice((1, 5, 50)),
            committed=kind < 0.8,
            kept=0.6 < kind < 0.8,
        )
        if answer.answer == "ok" and kind < 0.6:
            self._read_from[partition] = answer.next_offset

    # ------------------------------------------------------------------ subscriptions

    def _consume(self, txn: Txn | None = None) -> Requests:
        """Receive, then acknowledge, give back, or forget."""
        subscription = self._rng.choice(self._setting.subscriptions)
        answer = yield Receive(
            subscription=subscription,
            consumer=self._name,
            max_messages=self._rng.choice((1, 3, 8)),
            keyed=subscription in self._setting.keyed,
        )
        messages = [(place, offset, mid) for place, offset, _, mid in answer.messages]
        self._common.delivered.extend((subscription, message) for message in messages)
        if not messages:
            return None
        some = tuple(self._rng.sample(messages, self._rng.randint(1, len(messages))))
        if self._rng.random() < 0.15:
            nack = Nack(subscription=subscription, consumer=self._name, messages=some)
            yield nack
            return None
        return (yield from self._ack(subscription, some, txn))

    def _ack_old(self, txn: Txn | None) -> Requests:
        """Acknowledge what was delivered a while ago, perhaps to somebody else."""
        if self._common.delivered:
            subscription, message = self._rng.choice(list(self._common.delivered))
            return (yield from self._ack(subscription, (message,), txn))
        return None

    def _ack(
        self, subscription: str, messages: tuple[tuple[str, int, str], ...], txn: Txn | None
    ) -> Requests:
        op = Ack(subscription=subscription, consumer=self._name, messages=messages, txn=txn)
        answer = yield from self._insist(op)
        if txn is not None and self._rng.random() < 0.1:
            yield Ack(subscription=subscription, consumer=self._name, messages=messages)
        return None if answer.code == "TransactionConflict" else answer.answer == "ok"

    def _consume_in_order(self) -> Requests:
        """Receive alone, and acknowledge everything up to one of the messages."""
        subscription = self._rng.choice(self._setting.cumulative)
        answer = yield Receive(
            subscription=subscription,
            consumer=self._name,
            max_messages=5,
            lease_ms=self._setting.lease_ms,
        )
        if not answer.messages:
            return
        place, offset, _, mid = self._rng.choice(answer.messages)
        txn = None
        if self._rng.random() < 0.7:
            txn = yield from self._begin()
        ack = Ack(
            subscription=subscription,
            consumer=self._name,
            messages=((place, offset, mid),),
            txn=txn,
            cumulative=True,
        )
        yield from self._insist(ack)
        if txn is not None:
            yield from self._end(txn, commit=self._rng.random() < 0.6)

    def _timeout(self) -> int:
        return self._rng.choice(self._setting.timeouts_ms)


def last_reads(setting: Setting) -> Iterator[Requests]:
    """The reads that show what has become of everything, once all has ended."""
    for partition in setting.partitions:
        yield _read_all(partition)
    for subscription in dict.fromkeys((*setting.subscriptions, *setting.cumulative)):
        yield _drain(subscription)


def _read_all(partition: str) -> Requests:
    position, misses = 0, 0
    while misses < 20:
        answer = yield Fetch(
            partition=partition, from_offset=position, max_messages=1000, final=True
        )
        if answer.answer != "ok":
            misses += 1
            continue
        if answer.next_offset == position:
            return
        position = answer.next_offset
    raise AssertionError(f"{partition} cannot be read to its end")


def _drain(subscription: str) -> Requests:
    empty = 0
    for _ in range(_DRAINS):
        answer = yield Receive(
            subscription=subscription, consumer="drain", max_messages=500, final=True
        )
        # Partitions and brokers take turns, and a first call may rebuild one.
        empty = 0 if answer.messages else empty + 1
        if empty == 6:
            return
    raise AssertionError(f"{subscription} is never empty")

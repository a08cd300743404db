"""An engine and the reference side by side, and what the rules of the machine have in common."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from engine import Engine
from engine.model.errors import EngineError, PartitionUnavailable
from engine.model.subscription import SubscriptionType
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import another, unreachable
from tests.model import looking, questions
from tests.model.reference import Reference

TOPICS = [TopicName("public", "default", name) for name in ("a", "b")]
PARTITIONS = [PartitionName(topic, number) for topic in TOPICS for number in range(3)]
#: Where messages go that were given back too often; it is always there, and not always online.
DEAD_LETTERS = PartitionName(TopicName("public", "default", "dead"), 0)
SUBSCRIPTIONS = [SubscriptionName(topic, name) for topic in TOPICS for name in ("s", "t")]
BROKERS = ("broker-1", "broker-2")
AWAY = st.sampled_from(BROKERS)
SIDECARS = TOPICS[1:]
SEGMENT_MAX = 4
#: Nothing that a run waits for: time is moved, never waited for.
HOUR_MS = 3_600_000
#: Ids that no coordinator issues in a run.
UNKNOWN = [TxnID(0, 900), TxnID(3, 0)]


def drawn(choose: Callable[[World], Sequence[Any]]) -> st.SearchStrategy[Any]:
    """One of what the machine knows at that moment."""
    return st.runner().flatmap(lambda machine: st.sampled_from(choose(machine)))


TXN = drawn(lambda machine: machine.txn_ids or UNKNOWN)
#: For programs: in three of four of their transactions there is something to do.
MAYBE_TXN = st.none() | drawn(lambda machine: machine.open_ids * 3 + machine.txn_ids or UNKNOWN)
PARTITION = drawn(lambda machine: machine.partitions * 20 + PARTITIONS)
SUBSCRIPTION = drawn(lambda machine: machine.subscriptions * 20 + SUBSCRIPTIONS)
OWNER = st.sampled_from([None] * 6 + ["alice", "bob"])
KIND = st.sampled_from(SubscriptionType)
CONSUMER = st.sampled_from(["c1", "c2"])
MAX_REDELIVERIES = st.sampled_from([None, 0, 1])
ACTION = st.sampled_from(TxnAction)
SEQUENCE = st.none() | st.tuples(st.sampled_from(["p", "p", "q"]), st.integers(0, 3))


class World(RuleBasedStateMachine):
    """One engine on empty databases beside one reference, and the engine of another process."""

    #: Makes an engine on empty databases; set by the test.
    fresh: ClassVar[Callable[[], Engine]]
    #: How often each operation ended how, over all runs.
    seen: ClassVar[Counter[tuple[str, str]]]

    def __init__(self) -> None:
        super().__init__()
        self.engine = type(self).fresh()
        self.elsewhere = another(self.engine)
        self.reference = Reference(self.engine.settings.coordinators)
        self._texts = itertools.count()
        self._steps = 0

    def teardown(self) -> None:
        for engine in (self.engine, self.elsewhere):
            engine.close()

    # What is known

    @property
    def txn_ids(self) -> list[TxnID]:
        return [*self.reference.coordinators.txns]

    @property
    def newest(self) -> int:
        """The coordinator that was made last."""
        return max(self.reference.coordinators.issued)

    @property
    def open_ids(self) -> list[TxnID]:
        txns = self.reference.coordinators.txns.values()
        return [txn.txn_id for txn in txns if txn.action is None]

    @property
    def partitions(self) -> list[PartitionName]:
        return [
            PartitionName(name, number)
            for name, topic in self.reference.topics.items()
            for number in range(len(topic.partitions))
        ]

    @property
    def subscriptions(self) -> list[SubscriptionName]:
        return [
            SubscriptionName(name, subscription)
            for name, topic in self.reference.topics.items()
            for subscription in topic.subscriptions
        ]

    @property
    def offline(self) -> list[PartitionName]:
        return [p for p in self.partitions if not self.reference.partition(p).online]

    @contextmanager
    def away(self, broker: str) -> Iterator[None]:
        """Let a broker be away meanwhile."""
        with unreachable(self.engine, broker, patience=0.01):
            self.reference.away = broker
            try:
                yield
            finally:
                self.reference.away = None

    def agree(
        self,
        what: str,
        real: Callable[[], Any],
        expected: Callable[[], Any],
        *,
        may_ask: Sequence[str] = (),
    ) -> tuple[Any, Any] | None:
        """Do the same to both; None when both refuse with the same code.

        The reference goes second: it may ask what the engine has chosen. It does nothing when the
        engine refuses because a broker is away that it ``may_ask``, or remember the answer of.
        """
        answer, refusal = _tried(real)
        if self.reference.away in may_ask and isinstance(refusal, PartitionUnavailable):
            self.seen[what, "away"] += 1
            return None
        wanted, refused = _tried(expected)
        code = refusal and refusal.code
        same_code = code == (refused and refused.code)
        assert same_code, f"{what}: the engine says {refusal!r}, the model {refused!r}"
        if refusal is not None and refused is not None:
            self.seen[what, refusal.code] += 1
            return None
        self.seen[what, "done"] += 1
        return answer, wanted

    def equal(
        self,
        what: str,
        real: Callable[[], Any],
        expected: Callable[[], Any],
        *,
        may_ask: Sequence[str] = (),
    ) -> None:
        """Do the same to both, with the same answer."""
        found = self.agree(what, real, expected, may_ask=may_ask)
        if found is not None:
            looking.same(*found, what)

    # What is compared

    @invariant()
    def both_look_the_same(self) -> None:
        """After each step, and now and then at what costs more to look at."""
        looking.compare_logs(self.engine, self.reference)
        looking.compare_subscriptions(self.engine, self.reference)
        self._steps += 1
        if self._steps % 5 == 0:
            looking.compare_reads(self.engine, self.reference)
            looking.compare_coordinators(self.engine, self.reference)
        if self._steps % 8 == 0:
            questions.compare_questions(self.engine, self.reference)


def _tried(call: Callable[[], Any]) -> tuple[Any, EngineError | None]:
    try:
        return call(), None
    except EngineError as error:
        return None, error

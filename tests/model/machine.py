"""Random operations on an engine and on the reference at once (Hypothesis, stateful).

Every answer is compared, errors by their code; after each step also all that can be seen. Where
the engine may choose (which partition a receive call looks at first), what it chose is checked and
the reference follows.

Time is under control: deadlines, back-offs and ages are moved by SQL, never waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from engine.model.subscription import SubscriptionType
from tests.model.messages import Messages
from tests.model.operations import Operations
from tests.model.topics import Topics
from tests.model.transactions import Transactions
from tests.model.world import DEAD_LETTERS, KIND, MAX_REDELIVERIES, SUBSCRIPTIONS, TOPICS

M = TypeVar("M")


def drawn_as_often(**rules: int) -> Callable[[type[M]], type[M]]:
    """Let each of these rules be drawn as often as so many others."""

    def registered(machine: type[M]) -> type[M]:
        for name, times in rules.items():
            for again in range(1, times):
                setattr(machine, f"{name}_{again}", getattr(machine, name))
        return machine

    return registered


# What operators do is worth little where programs have done nothing, or everything is offline.
@drawn_as_often(
    open=2,
    produce=8,
    consume=12,
    consume_while_a_broker_is_away=4,
    acknowledge=2,
    bring_online=4,
    end_and_carry_out=3,
    finalize=2,
)
class Machine(Topics, Messages, Operations, Transactions):
    """All rules, and a world that is not empty to begin with."""

    @initialize(
        partitions=st.integers(1, 2),
        writers=st.lists(st.sampled_from([0, 1, 2, None]), min_size=4, max_size=9),
        kinds=st.tuples(KIND, KIND),
        max_redeliveries=MAX_REDELIVERIES,
    )
    def begin(
        self,
        partitions: int,
        writers: list[int | None],
        kinds: tuple[SubscriptionType, SubscriptionType],
        max_redeliveries: int | None,
    ) -> None:
        """Three transactions and plain producers have written; two subscriptions listen."""
        self.create(DEAD_LETTERS.topic, 1)
        self.create(TOPICS[0], partitions)
        self.create(TOPICS[1], 1)
        for name, kind in zip((SUBSCRIPTIONS[0], SUBSCRIPTIONS[2]), kinds, strict=True):
            self.subscribe(name, False, kind, max_redeliveries)
        for tc_id in (0, 0, 1):
            self.open(tc_id, "alice")
        written = [p for p in self.partitions if p != DEAD_LETTERS]
        for turn, writer in enumerate(writers):
            self.produce(
                partition=written[turn % len(written)],
                size=1 + turn % 2,
                txn_id=None if writer is None else self.txn_ids[writer],
                owner=None,
                sequence=None,
                late=False,
            )

"""The engine and the reference, side by side, under random operations.

Three profiles: ``fast`` in every run, ``long`` in the whole one, and any depth on demand, with
other choices each time:

    TXNCONSOLE_MODEL=1000x80 pytest tests/model -k long -o faulthandler_timeout=0    # runs x steps

The first two make the same choices each time, so that a change alone decides whether it passes.
They look at what has been looked at before; only the third finds anything new.

A failure is shrunk and printed as calls of rules, with the line that repeats it
(``@reproduce_failure``); what it taught stands as a test of its own beside the code it was in.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from engine import Engine
from tests.model.machine import Machine
from tests.support.databases import Databases
from txnconsole.enginedb import wiring

#: Runs x steps, where a depth is asked for.
DEPTH = os.environ.get("TXNCONSOLE_MODEL", "")
#: From so many runs on, a long run must have met all that is needed.
ENOUGH = 200
#: What a long run must have met at least once each, or it has looked at nothing.
NEEDED = {
    ("acknowledge", "TransactionConflict"),
    ("acknowledge", "InvalidTxnStatus"),
    ("acknowledge", "done"),
    ("acknowledge up to", "TransactionConflict"),
    ("acknowledge up to", "done"),
    ("bring_online", "done"),
    ("delete_topic", "TopicInUse"),
    ("end", "InvalidTxnStatus"),
    ("end", "TransactionNotFound"),
    ("end_group", "ProducerFenced"),
    ("end_group", "done"),
    ("finalize", "done"),
    ("force_abort", "done"),
    ("leave", "done"),
    ("nack", "done"),
    ("produce", "InvalidTxnStatus"),
    ("produce", "PartitionUnavailable"),
    ("produce", "SequenceOutOfOrder"),
    ("produce", "done"),
    ("receive", "ConsumerBusy"),
    ("receive", "died"),
    ("receive", "done"),
    ("seek by force", "done"),
    ("seek", "TopicInUse"),
    ("seek", "done"),
    ("truncate", "TopicInUse"),
    ("truncate", "done"),
    ("unsubscribe by force", "done"),
}


def run(databases: Databases, examples: int, steps: int, *, same: bool) -> Counter[tuple[str, str]]:
    """Run the machine; ``same``: with the same choices each time."""

    def fresh() -> Engine:
        wiring.close()
        databases.clean()
        return wiring.engine()

    seen: Counter[tuple[str, str]] = Counter()
    machine = type("Machine", (Machine,), {"fresh": staticmethod(fresh), "seen": seen})
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                derandomize=same,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, Phase.shrink],
                print_blob=True,
            ),
        )
    finally:
        wiring.close()
    return seen


@pytest.mark.timeout(600)
def test_the_engine_answers_what_the_model_answers(databases: Databases) -> None:
    seen = run(databases, 3, 20, same=True)
    assert seen["produce", "done"] > 10


@pytest.mark.deep
@pytest.mark.timeout(0 if DEPTH else 900)
def test_the_engine_answers_what_the_model_answers_in_a_long_run(databases: Databases) -> None:
    examples, steps = map(int, (DEPTH or "16x40").split("x"))
    seen = run(databases, examples, steps, same=not DEPTH)
    assert examples < ENOUGH or NEEDED - seen.keys() == set()

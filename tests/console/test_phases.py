from __future__ import annotations

from dataclasses import replace

from engine.model.txn_status import EndReason, TxnStatus
from tests.console.lives import transaction
from txnconsole.console.phases import phases_of, steps


def test_an_open_transaction_has_one_phase_until_now() -> None:
    (phase,) = phases_of(transaction(TxnStatus.OPEN, decided=None, ended=None))
    assert (phase.status, phase.duration_ms) == (TxnStatus.OPEN, 60_000)
    assert (phase.left, phase.width) == (0, 100)


def test_an_ended_one_has_two_in_proportion() -> None:
    first, second = phases_of(transaction(TxnStatus.ABORTED, decided=30, ended=40))
    assert (first.status, first.duration_ms, first.width) == (TxnStatus.OPEN, 30_000, 75)
    assert (second.status, second.duration_ms, second.left) == (TxnStatus.ABORTING, 10_000, 75)


def test_a_short_phase_can_still_be_seen() -> None:
    first, second = phases_of(transaction(TxnStatus.COMMITTED, decided=50, ended=50))
    assert second.width > 1
    assert first.width + second.width <= 100.01


def test_the_branch_that_was_taken_is_told_apart_from_the_other() -> None:
    one = replace(
        transaction(TxnStatus.ABORTING, decided=5, ended=None), end_reason=EndReason.OPERATOR
    )
    found = steps(one, one.now)
    assert [(step.status, step.taken, step.is_here) for step in found] == [
        (TxnStatus.OPEN, True, False),
        (TxnStatus.COMMITTING, False, False),
        (TxnStatus.COMMITTED, False, False),
        (TxnStatus.ABORTING, True, True),
        (TxnStatus.ABORTED, False, False),
    ]
    assert [step.ms for step in found] == [5_000, None, None, 55_000, None]
    assert [step.why for step in found] == [None, None, None, "operator", None]

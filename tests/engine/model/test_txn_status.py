"""What a transaction's status means, and which end it refuses. That the database takes no other
change of it than the state machine's: tests/engine/coordinator/test_ending.py."""

from __future__ import annotations

import pytest

from engine.model.errors import InvalidTxnStatus
from engine.model.txn_status import (
    Outcome,
    TxnAction,
    TxnStatus,
    action_of,
    outcome_of,
    refuse_opposite_end,
)

OPEN, COMMITTING, COMMITTED, ABORTING, ABORTED = TxnStatus


@pytest.mark.parametrize(
    ("status", "action"),
    [
        (COMMITTING, TxnAction.COMMIT),
        (COMMITTED, TxnAction.COMMIT),
        (ABORTING, TxnAction.ABORT),
        (ABORTED, TxnAction.ABORT),
    ],
)
def test_the_same_end_again_is_allowed_and_the_opposite_is_refused(
    status: TxnStatus, action: TxnAction
) -> None:
    [opposite] = set(TxnAction) - {action}
    assert action_of(status) is action
    refuse_opposite_end(status, action, txn_id="0:0")
    with pytest.raises(InvalidTxnStatus) as refused:
        refuse_opposite_end(status, opposite, txn_id="0:0")
    assert refused.value.data == {"current_status": str(status), "txn_id": "0:0"}


def test_an_open_transaction_has_neither_action_nor_outcome_and_takes_either_end() -> None:
    assert action_of(OPEN) is None
    assert outcome_of(OPEN) is Outcome.UNDECIDED
    for action in TxnAction:
        refuse_opposite_end(OPEN, action, txn_id="0:0")


def test_a_decision_is_an_outcome_already() -> None:
    assert outcome_of(COMMITTING) is outcome_of(COMMITTED) is Outcome.COMMITTED
    assert outcome_of(ABORTING) is outcome_of(ABORTED) is Outcome.ABORTED

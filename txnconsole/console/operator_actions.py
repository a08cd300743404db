"""What an operator can change from the console. Each attempt is recorded, whatever comes of it."""

from __future__ import annotations

from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction
from txnconsole.audit.chain import Change, recorded
from txnconsole.console.page import ConsoleRequest, actor_of
from txnconsole.enginedb.wiring import engine
from txnconsole.queue.wakeup import wake_finalizer
from txnconsole.request_log import about

ABORT = "transaction.abort"


def abort_transaction(request: ConsoleRequest, txn_id: TxnID, reason: str) -> Transaction:
    """Decide a transaction's abort, for the reason of its owner or of an operator.

    The decision is durable when this returns; the workers carry it out. Repeating it is harmless.

    Raises:
        TransactionNotFound: there is no such transaction.
        InvalidTxnStatus: it is committing or committed.
        CoordinatorUnavailable: the coordinators' database cannot be reached.
    """
    about(txn_id)
    change = Change(actor_of(request), ABORT, f"transaction:{txn_id}", reason)
    with recorded(change) as recording:
        before = engine().coordinator.get(txn_id)
        recording.before = {"status": str(before.status), "owner": before.owner}
        own = before.owner == request.principal.name
        after = engine().coordinator.end(
            txn_id,
            TxnAction.ABORT,
            reason=EndReason.CLIENT if own else EndReason.OPERATOR,
            detail=reason,
        )
        recording.after = {"status": str(after.status)}
    wake_finalizer(txn_id.tc_id)
    return after

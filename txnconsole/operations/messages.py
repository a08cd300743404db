"""Messages that people write themselves, recorded."""

from __future__ import annotations

from engine.model.errors import EngineError
from engine.model.message import NewMessage
from engine.model.partition import Appended
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from txnconsole.audit.recording import Actor, Change, recorded
from txnconsole.enginedb.wiring import engine
from txnconsole.queue.wakeup import wake_finalizer

#: What the transaction of a test message says of who opened it.
CLIENT = "console"


def send_test(
    actor: Actor,
    partition: PartitionName,
    message: NewMessage,
    *,
    end: TxnAction | None,
    reason: str,
) -> tuple[Appended, TxnID | None]:
    """Append one message; with ``end``, in a transaction of its own, which is ended that way at
    once. What it carries is not recorded, only how much.

    Returns:
        Where it stands (in the sidecar log, of a sidecar-buffered partition), and its transaction.

    Raises:
        PartitionUnavailable, PayloadTooLarge, CoordinatorUnavailable, LimitExceeded: nothing was
            appended, and the transaction, if there is one, is aborted or will expire.
    """
    change = Change(actor, "message.test", f"partition:{partition}", reason=reason)
    with recorded(change) as recording:
        txn_id = None
        if end is not None:
            txn_id = engine().coordinator.open(owner=actor.name, client=CLIENT).txn_id
        try:
            appended = engine().produce(partition, [message], txn_id=txn_id, owner=actor.name)
        except EngineError:
            if txn_id is not None:
                engine().coordinator.end(txn_id, TxnAction.ABORT, owner=actor.name)
                wake_finalizer(txn_id.tc_id)
            raise
        if txn_id is not None and end is not None:
            engine().coordinator.end(txn_id, end, owner=actor.name)
            wake_finalizer(txn_id.tc_id)
        recording.after = {
            "offset": appended.first_offset,
            "bytes": len(message.payload),
            "txn_id": None if txn_id is None else str(txn_id),
            "end": end and str(end),
        }
    return appended, txn_id

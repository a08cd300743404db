"""The pending-ack log says all that pending_ack says (semantics §6, §8)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from engine.model.cursor import replay
from engine.model.ranges import Ranges
from engine.model.subscription import AckOp, AckStep, AckType
from engine.model.txn_id import TxnID
from engine.postgres.database import Database, Row

#: subscription id, partition id, transaction, type of its acks
Holding = tuple[int, int, TxnID, AckType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a transaction holds by the log, and by pending_ack."""

    holding: Holding
    by_log: Ranges
    stands: Ranges


def differences(database: Database) -> tuple[Difference, ...]:
    """Rebuild what transactions hold on a broker from the pending-ack log alone, and compare.

    One snapshot of the database. The cost is that of the log, which is trimmed behind mark-delete.
    """
    steps, pending = database.snapshot(("all_ack_steps", {}), ("every_pending_ack", {}))
    by_log: dict[Holding, Ranges] = {}
    for (subscription_id, partition_id), rows in groupby(steps, key=_cursor):
        found = list(rows)
        for ack in replay(map(_step, found), found[0].mark_delete):
            by_log[subscription_id, partition_id, ack.txn_id, ack.ack_type] = ack.ranges
    stands: dict[Holding, Ranges] = {
        (*_cursor(row), TxnID(row.tc_id, row.sequence), AckType(row.ack_type)): row.ranges
        for row in pending
    }
    return tuple(
        Difference(
            holding=key,
            by_log=by_log.get(key, Ranges()),
            stands=stands.get(key, Ranges()),
        )
        for key in sorted(by_log.keys() | stands.keys())
        if by_log.get(key) != stands.get(key)
    )


def _cursor(row: Row) -> tuple[int, int]:
    return row.subscription_id, row.partition_id


def _step(row: Row) -> AckStep:
    return AckStep(
        txn_id=TxnID(row.tc_id, row.sequence),
        op=AckOp(row.op),
        ack_type=AckType(row.ack_type),
        ranges=row.ranges,
    )

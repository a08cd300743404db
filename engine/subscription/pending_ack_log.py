"""The cross-check that the pending-ack log tells the same as the table pending_ack (semantics §6,
§8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from engine.log.rows import txn_of
from engine.model.cursor import replay
from engine.model.ranges import Ranges
from engine.model.subscription import AckOp, AckStep, AckType
from engine.model.txn_id import TxnID
from engine.postgres.database import Database, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a transaction holds of a subscription in a partition, by the log and by pending_ack
    (``stands``), where the two differ."""

    txn_id: TxnID
    ack_type: AckType
    by_log: Ranges
    stands: Ranges


def differences(database: Database) -> dict[tuple[int, int], list[Difference]]:
    """Rebuild what transactions hold on a broker from the pending-ack log alone, and compare.

    It reads one snapshot of the database. The cost is that of the log, which is trimmed behind the
    mark-delete position.

    Returns:
        The differences by ids of subscription and partition.
    """
    steps, pending = database.snapshot(("all_ack_steps", {}), ("every_pending_ack", {}))
    logs = {key: list(rows) for key, rows in groupby(steps, key=_cursor)}
    held = {key: list(rows) for key, rows in groupby(sorted(pending, key=_cursor), key=_cursor)}
    found = {
        key: told_otherwise(
            logs.get(key, ()), held.get(key, ()), logs[key][0].mark_delete if key in logs else -1
        )
        for key in sorted(logs.keys() | held.keys())
    }
    return {key: each for key, each in found.items() if each}


def told_otherwise(
    steps: Iterable[Row], pending: Iterable[Row], mark_delete: int
) -> list[Difference]:
    """The differences of one subscription in one partition."""
    by_log = {
        (ack.txn_id, ack.ack_type): ack.ranges for ack in replay(map(_step, steps), mark_delete)
    }
    stands: dict[tuple[TxnID, AckType], Ranges] = {
        (txn_of(row), AckType(row.ack_type)): row.ranges for row in pending
    }
    return [
        Difference(
            txn_id=key[0],
            ack_type=key[1],
            by_log=by_log.get(key, Ranges()),
            stands=stands.get(key, Ranges()),
        )
        for key in sorted(by_log.keys() | stands.keys())
        if by_log.get(key) != stands.get(key)
    ]


def _cursor(row: Row) -> tuple[int, int]:
    return row.subscription_id, row.partition_id


def _step(row: Row) -> AckStep:
    return AckStep(
        txn_id=txn_of(row),
        op=AckOp(row.op),
        ack_type=AckType(row.ack_type),
        ranges=row.ranges,
    )

"""The question that comes before every append and acknowledgement in a transaction: is it OPEN?

The strict fence (semantics §4) demands that nothing that starts after the decision was recorded
gets in. So the header is read by a statement that begins after the append has begun. When callers
share an answer, it comes from a statement that began after all of them had asked
(engine.postgres.combining). So a caller that asks after the decision's commit gets a statement that
began after it, and sees the decision.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.coordinator.statements import STATUS, STATUSES, Header
from engine.model.txn_id import TxnID, id_lists
from engine.postgres.combining import Combiner
from engine.postgres.database import Database


class Headers:
    """Reads headers for many callers at once. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._combined = Combiner(self._read)

    def get(self, txn_id: TxnID) -> Header | None:
        """The header as it was at some moment after the call began; None when there is none.

        Raises:
            CoordinatorUnavailable: the coordinators' database cannot be reached.
        """
        return self._combined(txn_id)

    def _read(self, txn_ids: Sequence[TxnID]) -> Sequence[Header | None]:
        first, *others = dict.fromkeys(txn_ids)
        if not others:
            found = self._database.ask(STATUS, first.tc_id, first.sequence)
            return [Header(*found[0]) if found else None] * len(txn_ids)
        asked = [first, *others]
        rows = self._database.ask(STATUSES, *id_lists(asked).values())
        headers = {
            txn_id: None if row[0] is None else Header(*row)
            for txn_id, row in zip(asked, rows, strict=True)
        }
        return [headers[txn_id] for txn_id in txn_ids]

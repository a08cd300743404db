"""Whether a message id names a message that exists, judged by its ledger.

An offset alone does not identify a message. A topic that was deleted and made anew has other
messages at the same offsets, and so has a log whose end was cut. Ids of ledgers are never used
twice on a broker, so the ledger in a message id tells. Almost all ids name the open ledger, whose
range is read with the state. The ranges of sealed ledgers are remembered as long as the open ledger
stays the same, because whatever changes a sealed ledger also opens a new one.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.ranges import Ranges
from engine.postgres.database import Database
from engine.postgres.session import Session
from engine.subscription.memory import Unsure
from engine.subscription.state import State

#: The offsets that message ids name, by the ledger in the id.
Named = Mapping[int, Ranges]
#: One more than the highest possible offset.
_NO_END = 2**63 - 1
#: For how many partitions ledgers are remembered.
_KEPT_PARTITIONS = 10_000


class Ledgers:
    """Tells messages that a partition has from those that it does not have any more, or never
    had."""

    def __init__(self) -> None:
        #: By broker and partition: which ledger was open, and the offsets of sealed ones.
        self._sealed: dict[tuple[Database, int], tuple[int, dict[int, Ranges]]] = {}

    def stranger(
        self, database: Database, session: Session, state: State, named: Named
    ) -> tuple[int, int] | None:
        """The first named ledger and offset that is not a message of the partition; None when all
        are. Offsets that the subscription has deleted, or retention has dropped, are not checked.

        Raises:
            Unsure: the state is a remembered one, and a sealed ledger would have to be looked up.
        """
        for ledger_id, offsets in named.items():
            first = offsets.first
            if ledger_id == state.open_ledger and (first is None or first >= state.open_since):
                continue  # the common case
            gone = Ranges.run(0, max(state.cursor.mark_delete + 1, state.log_start_offset))
            strange = offsets - self._of(database, session, state, ledger_id) - gone
            if strange:
                return ledger_id, next(iter(strange))
        return None

    def own(self, database: Database, session: Session, state: State, named: Named) -> Ranges:
        """Those of the named offsets at which the partition does have the named message.

        Raises:
            Unsure: as :meth:`stranger` does.
        """
        return Ranges.of(
            run
            for ledger_id, offsets in named.items()
            for run in (offsets & self._of(database, session, state, ledger_id)).runs
        )

    def _of(self, database: Database, session: Session, state: State, ledger_id: int) -> Ranges:
        """The offsets of a ledger; none when it is not a ledger of the partition."""
        if ledger_id == state.open_ledger:
            return Ranges.run(state.open_since, _NO_END)
        key = (database, state.partition_id)
        open_ledger, sealed = self._sealed.get(key, (None, {}))
        if open_ledger == state.open_ledger and ledger_id in sealed:
            return sealed[ledger_id]
        if state.remembered:
            raise Unsure
        row = session.one("ledger", partition_id=state.partition_id, ledger_id=ledger_id)
        if row is None:
            return Ranges()
        # A ledger without a last offset was opened after the state was read.
        end = _NO_END if row.last_offset is None else row.last_offset + 1
        has = Ranges.run(row.first_offset, end)
        if open_ledger != state.open_ledger:
            sealed = {}
            if len(self._sealed) >= _KEPT_PARTITIONS:
                self._sealed = {}
            self._sealed[key] = (state.open_ledger, sealed)
        sealed[ledger_id] = has
        return has

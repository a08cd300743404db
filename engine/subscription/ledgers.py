"""Which offsets of a partition the ledgers have that message ids name.

An offset alone is no message: a topic that was deleted and made anew has others at the same ones,
and so has a log whose end was cut. A ledger's id is never given again on its broker, so an id tells
by it. Almost all name the open ledger, which is read with the state; what sealed ones have is
remembered for as long as the same one is open: whatever changes them opens another.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.ranges import Ranges
from engine.postgres.database import Database, Session
from engine.subscription.memory import Unsure
from engine.subscription.state import State

#: Offsets by the ledger that is said to have them.
Named = Mapping[int, Ranges]
#: One after the last offset that there can be.
_NO_END = 2**63 - 1
#: Of so many partitions is it remembered.
_KEPT_PARTITIONS = 10_000


class Ledgers:
    """Tells the messages of a partition from others that were once at their offsets, or never."""

    def __init__(self) -> None:
        #: By broker and partition: the open ledger of then, and what the others have.
        self._sealed: dict[tuple[Database, int], tuple[int, dict[int, Ranges]]] = {}

    def stranger(
        self, database: Database, session: Session, state: State, named: Named
    ) -> tuple[int, int] | None:
        """A ledger and an offset that are named and are no message of the partition; None when
        there is none. What is deleted by now is no stranger, whatever has become of its ledger.

        Raises:
            Unsure: the state is remembered, and what is remembered beside it is not enough.
        """
        for ledger_id, offsets in named.items():
            first = offsets.first
            if ledger_id == state.open_ledger and (first is None or first >= state.open_since):
                continue  # as almost all
            gone = Ranges.run(0, max(state.cursor.mark_delete + 1, state.log_start_offset))
            strange = offsets - self._of(database, session, state, ledger_id) - gone
            if strange:
                return ledger_id, next(iter(strange))
        return None

    def own(self, database: Database, session: Session, state: State, named: Named) -> Ranges:
        """The offsets at which the partition has the message that is named.

        Raises:
            Unsure: as :meth:`stranger` does.
        """
        return Ranges.of(
            run
            for ledger_id, offsets in named.items()
            for run in (offsets & self._of(database, session, state, ledger_id)).runs
        )

    def _of(self, database: Database, session: Session, state: State, ledger_id: int) -> Ranges:
        """The offsets that a ledger has of the partition; none when it is another's."""
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
        # One without a last offset has been opened since the state was read.
        end = _NO_END if row.last_offset is None else row.last_offset + 1
        has = Ranges.run(row.first_offset, end)
        if open_ledger != state.open_ledger:
            sealed = {}
            if len(self._sealed) >= _KEPT_PARTITIONS:
                self._sealed = {}
            self._sealed[key] = (state.open_ledger, sealed)
        sealed[ledger_id] = has
        return has

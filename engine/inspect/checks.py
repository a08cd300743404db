"""What a check of an invariant answers (semantics §8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.postgres.database import Row

#: Counter-examples of one answer; one is enough to be worried.
EXAMPLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One invariant about one subject, as far as one step has looked.

    ``invariant``: its number in semantics §8. ``counter_examples``: evidence, values are JSON
    types; empty when it holds. ``position``: where the next step goes on, None when all has been
    looked at. ``skipped``: why nothing could be told.
    """

    invariant: int
    name: str
    subject: str
    counter_examples: tuple[Mapping[str, object], ...] = ()
    position: int | None = None
    skipped: str | None = None

    @property
    def passed(self) -> bool | None:
        """None when nothing could be told."""
        if self.skipped is not None and not self.counter_examples:
            return None
        return not self.counter_examples


def evidence(row: Row) -> dict[str, object]:
    """A row as evidence; a transaction is named by its id."""
    facts: dict[str, Any] = row._asdict()
    if "tc_id" in facts and "sequence" in facts:
        facts = {"txn_id": f"{facts.pop('tc_id')}:{facts.pop('sequence')}", **facts}
    return {
        name: value if isinstance(value, int | str | bool | float | None) else str(value)
        for name, value in facts.items()
    }

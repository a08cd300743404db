"""What a check of an invariant answers (semantics §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from engine.postgres.session import Row

#: How many counter-examples one answer has at most; one is enough to be worried.
EXAMPLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One invariant checked on one subject, such as a partition, as far as one step has looked.

    Attributes:
        invariant: its number in semantics §8.
        counter_examples: evidence against it, in JSON types; empty when it holds.
        position: where the next step goes on; None when everything has been looked at.
        skipped: why it could not be checked.
    """

    invariant: int
    name: str
    subject: str
    counter_examples: tuple[Mapping[str, object], ...] = ()
    position: int | None = None
    skipped: str | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the invariant holds; None when it could not be checked."""
        if self.skipped is not None and not self.counter_examples:
            return None
        return not self.counter_examples


def check(
    invariant: int,
    name: str,
    subject: str,
    found: Iterable[Row | dict[str, object]],
    *,
    position: int | None = None,
    skipped: str | None = None,
) -> Check:
    """A check with the first :data:`EXAMPLES` of what was found against the invariant: rows, or
    facts in JSON types."""
    return Check(
        invariant=invariant,
        name=name,
        subject=subject,
        counter_examples=tuple(
            each if isinstance(each, dict) else evidence(each) for each in islice(found, EXAMPLES)
        ),
        position=position,
        skipped=skipped,
    )


def evidence(row: Row) -> dict[str, object]:
    """A row as evidence: its columns in JSON types, with the transaction's id in one field."""
    facts: dict[str, Any] = row._asdict()
    if "tc_id" in facts and "sequence" in facts:
        facts = {"txn_id": f"{facts.pop('tc_id')}:{facts.pop('sequence')}", **facts}
    return {
        name: value if isinstance(value, int | str | bool | float | None) else str(value)
        for name, value in facts.items()
    }

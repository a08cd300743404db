"""Random histories of one partition, told to a broker and to a brute-force model at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from engine import Engine
from engine.model.message import EntryKind
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    batch,
    end_txns,
)

_numbers = itertools.count()

TXNS = [TxnID(tc_id, sequence) for tc_id in (0, 1) for sequence in range(3)]


@dataclass(frozen=True)
class Append:
    txn_id: TxnID | None
    messages: int


@dataclass(frozen=True)
class End:
    txn_id: TxnID
    action: TxnAction


Step = Append | End
STEPS = st.lists(
    st.builds(Append, st.none() | st.sampled_from(TXNS), st.integers(1, 4))
    | st.builds(End, st.sampled_from(TXNS), st.sampled_from(TxnAction)),
    max_size=14,
)


@dataclass(frozen=True)
class Cell:
    """One offset of the log."""

    kind: EntryKind
    txn_id: TxnID | None
    text: str


@dataclass
class Model:
    """A partition without any index: every question looks at the whole log."""

    log: list[Cell] = field(default_factory=list)
    ended: dict[TxnID, TxnAction] = field(default_factory=dict)

    def append(self, step: Append, texts: Sequence[str]) -> None:
        self.log += [Cell(EntryKind.DATA, step.txn_id, text) for text in texts]

    def end(self, step: End) -> None:
        if step.txn_id not in self.ended:
            self.ended[step.txn_id] = step.action
            commit = step.action is TxnAction.COMMIT
            kind = EntryKind.TXN_COMMIT if commit else EntryKind.TXN_ABORT
            self.log.append(Cell(kind, step.txn_id, ""))

    @property
    def stable_position(self) -> int:
        for offset, cell in enumerate(self.log):
            if cell.txn_id is not None and cell.txn_id not in self.ended:
                return offset - 1
        return len(self.log) - 1

    def aborted(self, cell: Cell) -> bool:
        return cell.txn_id is not None and self.ended.get(cell.txn_id) is TxnAction.ABORT

    def committed(self, lower: int, upper: int) -> list[tuple[int, str]]:
        """What a READ_COMMITTED reader gets of [lower, upper)."""
        return [
            (offset, cell.text)
            for offset, cell in enumerate(self.log[: self.stable_position + 1])
            if lower <= offset < upper and cell.kind is EntryKind.DATA and not self.aborted(cell)
        ]

    def aborted_spans(self, lower: int, upper: int) -> list[tuple[TxnID, int]]:
        """The aborted transactions with data whose span, marker included, meets [lower, upper)."""
        found = []
        for last, cell in enumerate(self.log):
            if cell.kind is not EntryKind.TXN_ABORT or cell.txn_id is None:
                continue
            first = next(n for n, other in enumerate(self.log) if other.txn_id == cell.txn_id)
            if first < last and lower <= last and first < upper and lower < upper:
                found.append((cell.txn_id, first))
        return found


class Partition:
    """A partition of its own for one history, and the model beside it."""

    def __init__(
        self,
        engine: Engine,
        segment_max_messages: int = 7,
        buffer: BufferKind = BufferKind.MARKER,
    ) -> None:
        self.engine = engine
        self.name = PartitionName(TopicName("random", "logs", f"t{next(_numbers)}"), 0)
        settings = TopicSettings(segment_max_messages=segment_max_messages, buffer=buffer)
        engine.topics.create(self.name.topic, settings)
        self.location = engine.log.locate(self.name)
        self.model = Model()

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, End):
                self.end(step)
            elif step.txn_id is None or step.txn_id not in self.model.ended:
                texts = [f"{len(self.model.log)}+{index}" for index in range(step.messages)]
                self.engine.log.append(self.name, batch(*texts), txn_id=step.txn_id)
                self.model.append(step, texts)

    def end(self, step: End) -> str | None:
        [result] = end_txns(self.location, (step.txn_id, step.action))
        self.model.end(step)
        return result.error

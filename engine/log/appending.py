"""The append itself: callers that come to one partition at the same time share a round trip and a
commit.

Nothing else changes for them: each batch is judged, stored and answered by itself, in the order in
which they came (functions/broker/append.sql). When the connection is lost during such a call, each
of its callers is told that its batch may or may not have been stored, as a lone caller would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from engine.log.brokers import Location
from engine.model.errors import EngineError, InvalidRequest
from engine.postgres.combining import Combiner
from engine.postgres.prepared import BOOL, BYTEA, INT4, INT8, TEXT, Prepared, Type, array_of
from engine.sql import queries

#: The limit of what shares a call: the bytes of the bodies, and so many for each batch beside, so
#: that no more than 256 batches do.
_SHARED_BYTES = 4 * 1024 * 1024
_BATCH_BYTES = _SHARED_BYTES // 256

_KEPT_PARTITIONS = 10_000
_KEPT_TRANSACTIONS = 1000
#: Coordinator and sequence of a batch that is in no transaction.
_OUTSIDE = (None, None)

_APPEND = Prepared(
    "append",
    queries("append")["append"],
    {
        "partition_id": INT8,
        "messages": array_of(INT8),
        "bodies": array_of(BYTEA),
        "producers": array_of(TEXT),
        "sequence_ids": array_of(INT8),
        "tc_ids": array_of(INT4),
        "sequences": array_of(INT8),
    },
    [TEXT, INT8, INT8, INT8, INT8, BOOL],
)
_APPEND_PLAIN = Prepared(
    "append_plain",
    queries("append")["append_plain"],
    {"partition_id": INT8, "messages": INT8, "body": BYTEA},
    [INT8, INT8, INT8],
)
_APPEND_ONGOING = Prepared(
    "append_ongoing",
    queries("append")["append_ongoing"],
    {"partition_id": INT8, "messages": INT8, "body": BYTEA, "tc_id": INT4, "sequence": INT8},
    [INT8, INT8, INT8],
)
#: Of several batches of one kind; firsts and lasts are offsets from the first one's.
_ALIKE: dict[str, Type[Any]] = {
    "messages": INT8,
    "bytes": INT8,
    "firsts": array_of(INT8),
    "lasts": array_of(INT8),
    "bodies": array_of(BYTEA),
}
_APPEND_PLAIN_ALIKE = Prepared(
    "append_plain_alike",
    queries("append")["append_plain_alike"],
    {"partition_id": INT8, **_ALIKE},
    [INT8, INT8],
)
_APPEND_ONGOING_ALIKE = Prepared(
    "append_ongoing_alike",
    queries("append")["append_ongoing_alike"],
    {"partition_id": INT8, **_ALIKE, "tc_id": INT4, "sequence": INT8},
    [INT8, INT8],
)


class Batch(NamedTuple):
    """A batch to be stored. The fields are in the order of the statement's parameters."""

    messages: int
    body: bytes
    producer_name: str | None
    sequence_id: int | None
    tc_id: int | None
    sequence: int | None


class AppendResult(NamedTuple):
    """What became of a batch; ``result`` as functions/broker/append.sql has it."""

    result: str
    ledger_id: int
    first_offset: int
    last_offset: int
    last_sequence_id: int | None
    needs_snapshot: bool | None


def _size(batch: Batch) -> int:
    return len(batch.body) + _BATCH_BYTES


def _parts(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Batches in groups that may share a call."""
    part: list[Batch] = []
    size = 0
    for batch in batches:
        if part and size + _size(batch) > _SHARED_BYTES:
            yield part
            part, size = [], 0
        part.append(batch)
        size += _size(batch)
    if part:
        yield part


class Appender:
    """Appends batches to partitions. Thread-safe."""

    def __init__(self) -> None:
        self._partitions: dict[Location, Combiner[Batch, AppendResult | EngineError]] = {}

    def append(self, location: Location, batch: Batch) -> AppendResult:
        """Store one batch, or answer why not.

        Raises:
            InvalidRequest: a value cannot be stored.
            PartitionUnavailable: the broker cannot be reached; the batch may have been stored.
        """
        combiner = self._partitions.get(location) or self._combiner(location)
        answer = combiner(batch)
        if isinstance(answer, EngineError):
            raise answer
        return answer

    def append_each(self, location: Location, batches: Sequence[Batch]) -> list[AppendResult]:
        """Store several batches, each as if it came alone, in their order.

        Raises:
            InvalidRequest: a value cannot be stored.
            PartitionUnavailable: the broker cannot be reached; any of them may have been stored.
        """
        partition = _Partition(location)
        answers: list[AppendResult] = []
        for part in _parts(batches):
            for answer in partition.append(part):
                if isinstance(answer, EngineError):
                    raise answer
                answers.append(answer)
        return answers

    def _combiner(self, location: Location) -> Combiner[Batch, AppendResult | EngineError]:
        # Two combiners for one partition would be harmless: the partition's lock orders their
        # calls.
        if len(self._partitions) >= _KEPT_PARTITIONS:
            self._partitions = {}
        return self._partitions.setdefault(
            location,
            Combiner(
                _Partition(location).append,
                size=_size,
                limit=_SHARED_BYTES,
            ),
        )


class _Partition:
    """One partition's appends, one call at a time."""

    def __init__(self, location: Location) -> None:
        self._database, self._partition_id = location.database, location.partition_id
        #: Transactions in which this process has appended here. For others the lean statement would
        #: find no ongoing transaction.
        self._ongoing: set[tuple[int, int]] = set()

    def append(self, batches: Sequence[Batch]) -> Sequence[AppendResult | EngineError]:
        """Store batches, each as if it came alone."""
        try:
            stored = self._append_lean(batches) if self._need_no_judging(batches) else []
            return stored or self._append(batches)
        except InvalidRequest:
            # PostgreSQL refused a value, so nothing of the call was stored. Trying the batches one
            # by one shows whose value it was.
            if len(batches) == 1:
                raise
            return [self._alone(batch) for batch in batches]

    def _alone(self, batch: Batch) -> AppendResult | EngineError:
        try:
            return self._append([batch])[0]
        except EngineError as error:
            return error

    def _append(self, batches: Sequence[Batch]) -> list[AppendResult]:
        rows = self._database.ask(_APPEND, self._partition_id, *zip(*batches, strict=True))
        answers = [AppendResult(*row) for row in rows]
        self._remember(batches, answers)
        return answers

    def _need_no_judging(self, batches: Sequence[Batch]) -> bool:
        """Whether no producer has to be asked for, and all are outside transactions or in one that
        is known to be ongoing."""
        txn = (batches[0].tc_id, batches[0].sequence)
        return (txn == _OUTSIDE or txn in self._ongoing) and all(
            batch.producer_name is None and (batch.tc_id, batch.sequence) == txn
            for batch in batches
        )

    def _append_lean(self, batches: Sequence[Batch]) -> list[AppendResult]:
        """Append with a statement that judges nothing; no answers when it stored nothing."""
        first, ask, partition_id = batches[0], self._database.ask, self._partition_id
        txn = () if first.tc_id is None else (first.tc_id, first.sequence)
        if len(batches) == 1:
            statement = _APPEND_ONGOING if txn else _APPEND_PLAIN
            rows = ask(statement, partition_id, first.messages, first.body, *txn)
            return [
                AppendResult("appended", ledger_id, first_offset, last_offset, None, None)
                for ledger_id, first_offset, last_offset in rows
            ]
        statement = _APPEND_ONGOING_ALIKE if txn else _APPEND_PLAIN_ALIKE
        ends = list(accumulate(batch.messages for batch in batches))
        firsts, lasts = [0, *ends[:-1]], [end - 1 for end in ends]
        bodies = [batch.body for batch in batches]
        size = sum(map(len, bodies))
        rows = ask(statement, partition_id, ends[-1], size, firsts, lasts, bodies, *txn)
        return [
            AppendResult("appended", ledger_id, start + first, start + last, None, None)
            for ledger_id, start in rows
            for first, last in zip(firsts, lasts, strict=True)
        ]

    def _remember(self, batches: Sequence[Batch], answers: Sequence[AppendResult]) -> None:
        if len(self._ongoing) >= _KEPT_TRANSACTIONS:
            self._ongoing = set()
        for batch, answer in zip(batches, answers, strict=True):
            if batch.tc_id is not None and batch.sequence is not None:
                txn = (batch.tc_id, batch.sequence)
                if answer.result == "appended":
                    self._ongoing.add(txn)
                else:
                    self._ongoing.discard(txn)

"""The append itself: callers who come at once to one partition share a round trip and a commit.

Nothing else changes for them: each batch is judged, stored and answered for itself, in the order in
which they came (functions/broker/append.sql). When the connection is lost in the middle, every
caller in that call learns that nothing is known of his batch, as a lone one would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.log.brokers import Location
from engine.model.errors import EngineError, InvalidRequest
from engine.postgres.combining import Combiner
from engine.postgres.prepared import BOOL, BYTEA, INT4, INT8, TEXT, Prepared, array_of
from engine.sql import queries

#: Bytes of the bodies that share a call.
_SHARED_BYTES = 4 * 1024 * 1024
#: A body's share of the limit beside its bytes: no more than 256 batches share a call.
_BATCH_BYTES = _SHARED_BYTES // 256

_KEPT_PARTITIONS = 10_000

_APPEND = Prepared(
    "append",
    queries("broker")["append"],
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
    queries("broker")["append_plain"],
    {"partition_id": INT8, "messages": INT8, "body": BYTEA},
    [INT8, INT8, INT8],
)


class Batch(NamedTuple):
    """What is to be stored; the fields' order is that of the statement's parameters."""

    messages: int
    body: bytes
    producer_name: str | None
    sequence_id: int | None
    tc_id: int | None
    sequence: int | None


class Answer(NamedTuple):
    """What became of a batch; ``result`` as functions/broker/append.sql has it."""

    result: str
    ledger_id: int
    first_offset: int
    last_offset: int
    last_sequence_id: int | None
    needs_snapshot: bool | None


class Appender:
    """Appends batches to partitions. Thread-safe."""

    def __init__(self) -> None:
        self._partitions: dict[Location, Combiner[Batch, Answer | EngineError]] = {}

    def append(self, location: Location, batch: Batch) -> Answer:
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

    def _combiner(self, location: Location) -> Combiner[Batch, Answer | EngineError]:
        # Two for one partition would be harmless: their calls meet at the partition's lock.
        if len(self._partitions) >= _KEPT_PARTITIONS:
            self._partitions = {}
        return self._partitions.setdefault(
            location,
            Combiner(
                lambda batches: _together(location, batches),
                size=lambda batch: len(batch.body) + _BATCH_BYTES,
                limit=_SHARED_BYTES,
            ),
        )


def _together(location: Location, batches: Sequence[Batch]) -> Sequence[Answer | EngineError]:
    try:
        return _append(location, batches)
    except InvalidRequest:
        # PostgreSQL has refused a value, and with it the whole call: nothing was stored. Whose it
        # was shows when each is tried alone.
        if len(batches) == 1:
            raise
        return [_alone(location, batch) for batch in batches]


def _alone(location: Location, batch: Batch) -> Answer | EngineError:
    try:
        return _append(location, [batch])[0]
    except EngineError as error:
        return error


def _append(location: Location, batches: Sequence[Batch]) -> list[Answer]:
    first = batches[0]
    if len(batches) == 1 and first.producer_name is None and first.tc_id is None:
        plain = location.database.ask(
            _APPEND_PLAIN, location.partition_id, first.messages, first.body
        )
        if plain:
            ledger_id, first_offset, last_offset = plain[0]
            return [Answer("appended", ledger_id, first_offset, last_offset, None, None)]
    rows = location.database.ask(_APPEND, location.partition_id, *zip(*batches, strict=True))
    return [Answer(*row) for row in rows]

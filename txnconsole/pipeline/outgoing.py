"""Packing the rows of a DataFrame into batches to produce, many rows at a time. No IO.

The messages of a partition keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txnconsole.client.partitioner import partition_for_key
from txnconsole.pipeline.packing import array_header, packed

#: The limits of one request; bytes are of the encoded messages. A server spends as much time on a
#: request as on two thousand small messages, so batches should be large; but not larger, because
#: reading a few messages takes unpacking their whole batch.
BATCH_MESSAGES = 10_000
BATCH_BYTES = 2 * 1024 * 1024
#: How many bytes wait at most for more of their partitions, of which a topic may have a thousand.
WAITING_BYTES = 64 * 1024 * 1024

Integers = npt.NDArray[np.int64]


class Outgoing(NamedTuple):
    """A batch for one partition; its messages are one MessagePack array, in the contract's form."""

    partition: int
    messages: msgspec.Raw


class _Waiting(NamedTuple):
    """Messages that do not fill a batch yet: their bytes in order, the size of each message, and
    of all."""

    parts: tuple[bytes, ...]
    sizes: Integers
    size: int


_NONE = _Waiting((), np.zeros(0, np.int64), 0)


class Collector:
    """Collects rows into batches for the partitions of one topic."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._turn = 0
        self._waiting: dict[int, _Waiting] = {}

    def add(self, rows: pa.RecordBatch) -> Iterator[Outgoing]:
        """Take rows; yields the batches that they fill, and when too much waits for more, all.

        Raises:
            ValueError: a payload is null, or a property is given twice.
        """
        messages, chosen = packed(rows), self._choose(rows)
        order = np.argsort(chosen, kind="stable")
        messages, chosen = messages.take(pa.array(order)), chosen[order]
        partitions, begins = np.unique(chosen, return_index=True)
        spans = pairwise([*begins.tolist(), len(chosen)])
        for partition, (begun, end) in zip(partitions.tolist(), spans, strict=True):
            yield from self._add(partition, messages[begun:end])
        if sum(each.size for each in self._waiting.values()) > WAITING_BYTES:
            yield from self.rest()

    def _add(self, partition: int, messages: pa.BinaryArray) -> Iterator[Outgoing]:
        _, ends, data = messages.buffers()
        upto = np.frombuffer(ends, np.int32)[messages.offset :][: len(messages) + 1]
        parts, sizes, size = self._waiting.pop(partition, _NONE)
        waited, begun, at = len(sizes), 0, int(upto[0])
        sizes = np.concatenate((sizes, np.diff(upto)))
        for end in cuts(sizes):  # The messages that waited fit into the first batch.
            upper = int(upto[end - waited])
            yield _outgoing(partition, end - begun, (*parts, memoryview(data)[at:upper]))
            parts, size, begun, at = (), 0, end, upper
        if begun < len(sizes):
            # A copy: a view would keep the bytes of all these rows for as long as one waits.
            left = bytes(memoryview(data)[at : int(upto[-1])])
            self._waiting[partition] = _Waiting((*parts, left), sizes[begun:], size + len(left))

    def rest(self) -> list[Outgoing]:
        """The messages that did not fill a batch, as smaller batches."""
        waiting, self._waiting = self._waiting, {}
        return [_outgoing(each, len(left.sizes), left.parts) for each, left in waiting.items()]

    def _choose(self, rows: pa.RecordBatch) -> Integers:
        """Each row's partition: the one in its column, else its key's, else the next in turn."""
        chosen = np.full(rows.num_rows, -1, np.int64)
        known = np.zeros(rows.num_rows, bool)
        if "partition" in rows.schema.names:
            named = rows["partition"].cast(pa.int64())
            known = named.is_valid().to_numpy(zero_copy_only=False)
            chosen[known] = pc.fill_null(named, 0).to_numpy()[known]
        if "key" in rows.schema.names and not known.all():
            keys = rows["key"].dictionary_encode()
            keyed = keys.is_valid().to_numpy(zero_copy_only=False) & ~known
            try:
                homes = [
                    partition_for_key(key, self._partitions) for key in keys.dictionary.to_pylist()
                ]
            except UnicodeDecodeError as error:
                raise ValueError("A key is text in UTF-8, which one here is not.") from error
            at = pc.fill_null(keys.indices, 0).to_numpy()[keyed]
            chosen[keyed] = np.array(homes, np.int64)[at]
            known |= keyed
        others = np.flatnonzero(~known)
        chosen[others] = (self._turn + np.arange(len(others))) % self._partitions
        self._turn += len(others)
        return chosen


def _outgoing(partition: int, count: int, parts: Iterable[bytes | memoryview]) -> Outgoing:
    return Outgoing(partition, msgspec.Raw(b"".join((array_header(count), *parts))))


def cuts(sizes: Integers) -> Iterator[int]:
    """Where full batches of messages of these sizes end; what is after the last end fills none."""
    upto = np.cumsum(sizes)
    begun = 0
    while begun < len(sizes):
        before = upto[begun - 1] if begun else 0
        fitting = int(np.searchsorted(upto, before + BATCH_BYTES, side="right"))
        end = max(begun + 1, min(begun + BATCH_MESSAGES, fitting))
        if end == len(sizes) and end - begun < BATCH_MESSAGES and upto[-1] - before < BATCH_BYTES:
            return
        yield end
        begun = end

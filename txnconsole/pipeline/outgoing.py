"""Rows of a DataFrame into batches to produce, many rows at a time. No IO.

Messages of one partition keep their order. A batch is cut when it is as full as the limits say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txnconsole.client.calls import PackedMessage
from txnconsole.client.partitioner import partition_for_key

#: What one request carries at most; bytes are of the encoded body, about.
BATCH_MESSAGES = 2000
BATCH_BYTES = 1024 * 1024
#: An upper estimate of what one message adds to a body beside its texts and its payload.
_MESSAGE_OVERHEAD = 80
_TIME = "%Y-%m-%dT%H:%M:%SZ"

Integers = npt.NDArray[np.int64]


class Outgoing(NamedTuple):
    """A batch for one partition."""

    partition: int
    messages: list[PackedMessage]


class Collector:
    """Rows on their way into batches for the partitions of one topic."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._turn = 0
        self._waiting: dict[int, tuple[list[PackedMessage], Integers]] = {}

    def add(self, rows: pa.RecordBatch) -> Iterator[Outgoing]:
        """Take rows; gives the batches that are full with them.

        Raises:
            ValueError: a payload is null.
        """
        chosen = self._choose(rows)
        for partition in np.unique(chosen).tolist():
            own = rows
            if len(indices := np.flatnonzero(chosen == partition)) < len(chosen):
                own = rows.take(pa.array(indices))
            messages, sizes = self._waiting.pop(partition, ([], np.zeros(0, np.int64)))
            messages += packed(own)
            sizes = np.concatenate((sizes, _sizes(own)))
            begun = 0
            for end in cuts(sizes):
                yield Outgoing(partition, messages[begun:end])
                begun = end
            if begun < len(messages):
                self._waiting[partition] = messages[begun:], sizes[begun:]

    def rest(self) -> list[Outgoing]:
        """What has not filled a batch."""
        waiting, self._waiting = self._waiting, {}
        return [Outgoing(partition, messages) for partition, (messages, _) in waiting.items()]

    def _choose(self, rows: pa.RecordBatch) -> Integers:
        """Each row's partition: the one that it names, else its key's, else each in turn."""
        chosen = np.full(rows.num_rows, -1, np.int64)
        known = np.zeros(rows.num_rows, bool)
        if "partition" in rows.schema.names:
            named = rows["partition"].cast(pa.int64())
            known = named.is_valid().to_numpy(zero_copy_only=False)
            chosen[known] = pc.fill_null(named, 0).to_numpy()[known]
        if "key" in rows.schema.names and not known.all():
            keys = rows["key"].dictionary_encode()
            keyed = keys.is_valid().to_numpy(zero_copy_only=False) & ~known
            homes = [
                partition_for_key(key, self._partitions) for key in keys.dictionary.to_pylist()
            ]
            at = pc.fill_null(keys.indices, 0).to_numpy()[keyed]
            chosen[keyed] = np.array(homes, np.int64)[at]
            known |= keyed
        others = np.flatnonzero(~known)
        chosen[others] = (self._turn + np.arange(len(others))) % self._partitions
        self._turn += len(others)
        return chosen


def packed(rows: pa.RecordBatch) -> list[PackedMessage]:
    """The messages that rows stand for.

    Raises:
        ValueError: a payload is null.
    """
    names = rows.schema.names
    payload = rows["payload"]
    if payload.null_count:
        raise ValueError("A message's payload must not be null.")
    columns = [payload.cast(pa.binary()).to_pylist()]
    absent = [None] * rows.num_rows
    columns.append(rows["key"].to_pylist() if "key" in names else absent)
    if "properties" in names:
        properties = rows["properties"].to_pylist(maps_as_pydicts="strict")
        columns.append([each or {} for each in properties])
    elif "event_time" in names:
        columns.append([{} for _ in absent])
    if "event_time" in names:
        times = rows["event_time"].cast(pa.timestamp("us", tz="UTC"))
        columns.append(pc.strftime(times, format=_TIME).to_pylist())
    return list(map(PackedMessage, *columns))


def cuts(sizes: Integers) -> Iterator[int]:
    """Where messages of such sizes end a batch that is full; the last of them may not be."""
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


def _sizes(rows: pa.RecordBatch) -> Integers:
    sizes = pc.fill_null(pc.binary_length(rows["payload"]), 0).to_numpy() + _MESSAGE_OVERHEAD
    if "key" in rows.schema.names:
        sizes = sizes + pc.fill_null(pc.binary_length(rows["key"]), 0).to_numpy()
    if "properties" in rows.schema.names:
        sizes = sizes + _text_bytes(rows["properties"])
    counted: Integers = sizes.astype(np.int64)
    return counted


def _text_bytes(properties: pa.MapArray) -> Integers:
    """About how many bytes each row's properties take."""
    lengths = pc.add(pc.binary_length(properties.keys), pc.binary_length(properties.items))
    upto = np.concatenate(([0], np.cumsum(pc.fill_null(lengths, 0).to_numpy() + 10)))
    ends = np.frombuffer(properties.buffers()[1], np.int32)[properties.offset :]
    ends = ends[: len(properties) + 1]
    spans: Integers = upto[ends[1:]] - upto[ends[:-1]]
    return spans

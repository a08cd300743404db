"""Which messages are in flight, read from the packed state of the engine's dispatchers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

_PLACE = ("broker", "topic", "partition", "subscription")
_SCHEMA = pa.schema(
    [
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("subscription", pa.string()),
        ("consumer", pa.string()),
        ("lower", pa.int64()),
        ("upper", pa.int64()),
    ]
)


class _Ranges(msgspec.Struct, array_like=True):
    runs: list[tuple[int, int]] = []


class _Delivery(msgspec.Struct, array_like=True):
    consumer: str
    deadline_ms: int
    ranges: _Ranges


class _Dispatch(msgspec.Struct, array_like=True):
    """The part of engine.model.dispatch's state that is needed here."""

    read_offset: int
    redeliver: _Ranges = msgspec.field(default_factory=_Ranges)
    deliveries: list[_Delivery] = []


_decoder = msgspec.msgpack.Decoder(_Dispatch)


def deliveries(state: bytes) -> list[tuple[str, int, int]]:
    """The consumers, each with the half-open ranges of offsets that it has.

    Raises:
        msgspec.MsgspecError: it is not a state that the engine writes.
    """
    return [
        (delivery.consumer, lower, upper)
        for delivery in _decoder.decode(state).deliveries
        for lower, upper in delivery.ranges.runs
    ]


def in_flight(states: DataFrame) -> DataFrame:
    """A row for each range in flight, from rows with a ``state``."""

    def opened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                {name: row[name] for name in _PLACE}
                | {"consumer": consumer, "lower": lower, "upper": upper}
                for row in batch.to_pylist()
                for consumer, lower, upper in deliveries(row["state"])
            ]
            yield pa.RecordBatch.from_pylist(rows, _SCHEMA)

    return states.mapInArrow(opened, from_arrow_schema(_SCHEMA))

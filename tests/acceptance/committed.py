"""What READ_COMMITTED readers see over REST, and what pandas says they must see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import pandas as pd

from txnconsole.client.partitioner import partition_for_key
from txnconsole.demo.flights import Flights
from txnconsole.demo.schedule import PARTITIONS, schedule, within

_PAGE = 5000
_SEED = 2013


@dataclass(frozen=True, slots=True)
class Api:
    """The REST API of a running product."""

    url: str
    token: str

    def get(self, path: str, **query: str | int) -> Any:
        answer = httpx.get(
            f"{self.url}/api/v1{path}",
            params=query,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=60,
        )
        answer.raise_for_status()
        return answer.json()

    def partition(self, topic: str, number: int) -> Any:
        return self.get(f"/topics/{topic}/partitions/{number}")

    def committed(self, topic: str, number: int) -> Iterator[dict[str, Any]]:
        """Every message that a READ_COMMITTED reader of a partition gets, from the start."""
        offset = 0
        while True:
            page = self.get(
                f"/topics/{topic}/partitions/{number}/messages",
                from_offset=offset,
                max_messages=_PAGE,
                isolation="read_committed",
            )
            yield from page["messages"]
            if page["next_offset"] == offset:
                return
            offset = page["next_offset"]

    def committed_payloads(self, topic: str) -> list[dict[str, Any]]:
        """The payloads of all partitions of a topic, as READ_COMMITTED."""
        partitions = self.get(f"/topics/{topic}")["partitions"]
        return [
            msgspec.json.decode(message["payload"])
            for number in range(partitions)
            for message in self.committed(topic, number)
        ]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a replay of the first flights must leave behind."""

    flights: Flights
    positions: frozenset[int]

    @classmethod
    def after(cls, limit: int) -> Expected:
        flights = Flights.load()
        plan = within(schedule(_SEED, flights.carriers), limit)
        return cls(flights, frozenset(position for txn in plan for position in txn.flights))

    def in_partition(self, number: int) -> list[int]:
        """The positions that belong in a partition, in departure order."""
        return sorted(
            position
            for position in self.positions
            if partition_for_key(self.flights.carriers[position], PARTITIONS) == number
        )

    def payload(self, position: int) -> dict[str, Any]:
        [flight] = self.flights.at([position])
        return msgspec.json.decode(flight.payload, type=dict[str, Any])

    def frame(self) -> pd.DataFrame:
        """The committed flights as pandas reads them out of their payloads."""
        flights = self.flights.at(sorted(self.positions))
        return pd.DataFrame([msgspec.json.decode(flight.payload) for flight in flights])

    def delays(self) -> pd.DataFrame:
        """What the topic ``delays`` must hold."""
        frame = self.frame()
        late = frame[frame["arr_delay"] >= 15]
        columns = ["carrier", "flight", "origin", "dest", "time_hour", "dep_delay", "arr_delay"]
        return _sorted(late[columns])

    def carrier_delays(self) -> pd.DataFrame:
        """What the facts of ``carrier-delays`` must add up to."""
        frame = self.frame()
        frame["hour"] = pd.to_datetime(frame["time_hour"], utc=True)
        groups = frame.groupby(["carrier", "hour"])
        facts = pd.DataFrame(
            {
                "flights": groups.size(),
                "cancelled": groups["dep_time"].apply(lambda column: column.isna().sum()),
                "delayed": groups["arr_delay"].apply(lambda column: (column > 0).sum()),
                "dep_delay_sum": groups["dep_delay"].sum(),
                "dep_delay_count": groups["dep_delay"].count(),
                "arr_delay_sum": groups["arr_delay"].sum(),
                "arr_delay_count": groups["arr_delay"].count(),
            }
        )
        return facts.astype("int64").reset_index()


def delays_seen(payloads: list[dict[str, Any]]) -> pd.DataFrame:
    return _sorted(pd.DataFrame(payloads))


def carrier_delays_seen(payloads: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(payloads)
    frame["hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    facts = frame.drop(columns="time_hour").groupby(["carrier", "hour"]).sum()
    return facts.astype("int64").reset_index()


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    columns = ["carrier", "flight", "origin", "dest", "time_hour", "dep_delay", "arr_delay"]
    frame = frame[columns].astype({"dep_delay": "float64", "arr_delay": "float64"})
    return frame.sort_values(columns, ignore_index=True)

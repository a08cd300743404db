"""The replay against the running product: each flight is committed once, whatever happens."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from tests.demo.expectations import committed, planned
from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.client import Client
from txnconsole.demo.flights import Flights
from txnconsole.demo.pacing import Stop
from txnconsole.demo.recovery import START, Place, last_committed
from txnconsole.demo.replay import Replay, ReplayOptions
from txnconsole.demo.schedule import PARTITIONS, PRODUCERS, Ending, schedule, within
from txnconsole.demo.topics import Topics

LIMIT = 600
SEED = 11


def test_every_flight_is_committed_once_and_in_departure_order(
    client: Client, flights: Flights, demo_topics: Topics
) -> None:
    replays = _replay(client, flights, _options(demo_topics))
    plan = list(within(schedule(SEED, flights.carriers), LIMIT))
    expected = planned(flights, LIMIT, seed=SEED)
    assert eventually(lambda: _seen(client, demo_topics) == expected)

    def total(what: str) -> int:
        return sum(replay.tally[what] for replay in replays)

    endings = [ending for each in plan for ending in each.attempts]
    hanging = endings.count(Ending.HANG) + endings.count(Ending.HANG_LONG)
    assert total("transactions_committed") == len(plan)
    assert total("transactions_aborted") == endings.count(Ending.ABORT) > 0
    assert total("transactions_left_hanging") == hanging > 0
    assert total("duplicates_recognised") > 0
    assert total("duplicates_stored") == 0


def test_a_second_replay_finds_nothing_left_to_do(
    client: Client, flights: Flights, demo_topics: Topics
) -> None:
    _replay(client, flights, _options(demo_topics, limit=100))
    again = _replay(client, flights, _options(demo_topics, limit=100))
    assert [replay.tally["transactions_committed"] for replay in again] == [0, 0]


def test_another_seed_goes_on_without_losing_or_doubling_a_flight(
    client: Client, flights: Flights, demo_topics: Topics
) -> None:
    _replay(client, flights, _options(demo_topics, limit=150))
    done = committed(client, demo_topics.flights, PARTITIONS)
    _replay(client, flights, _options(demo_topics, seed=12))

    def exact() -> bool:
        seen = _seen(client, demo_topics)
        places = sorted(place for places in seen.values() for place in places)
        return all(
            places == sorted(set(places)) and seen[number][: len(done[number])] == done[number]
            for number in seen
        ) and {place.position for place in places} >= set(range(LIMIT))

    assert eventually(exact)


@pytest.mark.crash
def test_killed_at_any_moment_it_neither_loses_nor_doubles_a_flight(
    server: Served, client: Client, flights: Flights, demo_topics: Topics, tmp_path: Path
) -> None:
    for stored in (30, 90, 160):
        _kill_after(stored, server, client, demo_topics, tmp_path)
    with _process(server, demo_topics, tmp_path) as process:
        assert process.wait(120) == 0
    expected = planned(flights, LIMIT, seed=SEED)
    assert eventually(lambda: _seen(client, demo_topics) == expected)


def test_told_to_stop_it_aborts_what_is_open_and_goes(
    server: Served, client: Client, demo_topics: Topics, tmp_path: Path
) -> None:
    with _process(server, demo_topics, tmp_path, "--rate", "5") as process:
        assert eventually(lambda: _stored(client, demo_topics) > 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    owned = [
        each
        for each in client.transactions.list(status="OPEN", topic=demo_topics.flights)
        if each.timeout_ms == 60_000
    ]
    assert owned == []


def test_a_second_replay_on_the_same_data_is_refused_with_one_line(
    server: Served, client: Client, demo_topics: Topics, tmp_path: Path
) -> None:
    with _process(server, demo_topics, tmp_path, "--rate", "5") as first:
        assert eventually(lambda: _stored(client, demo_topics) > 0)
        with _process(server, demo_topics, tmp_path) as second:
            assert second.wait(120) == 1
            assert second.stderr is not None
            assert b"one replay at a time" in second.stderr.read()
        first.terminate()


class TestLastCommitted:
    """Recovery from what a stopped producer may have left in the log."""

    def test_nothing_yet(self, client: Client, demo_topics: Topics) -> None:
        assert self._last(client, demo_topics) == START

    def test_an_aborted_transaction_does_not_count(
        self, client: Client, demo_topics: Topics
    ) -> None:
        self._committed(client, demo_topics, 0, range(3))
        txn = self._left_open(client, demo_topics, 0, range(3, 5))
        client.transactions.abort(txn)
        assert self._last(client, demo_topics) == Place(1, 2)

    def test_an_undecided_transaction_is_aborted(self, client: Client, demo_topics: Topics) -> None:
        self._committed(client, demo_topics, 0, range(3))
        txn = self._left_open(client, demo_topics, 1, range(3, 5))
        assert self._last(client, demo_topics) == Place(1, 2)
        assert client.transactions.outcome(txn) == "ABORTED"

    def test_a_hanging_transaction_before_the_last_commit_is_left_alone(
        self, client: Client, demo_topics: Topics
    ) -> None:
        txn = self._left_open(client, demo_topics, 0, range(3))
        self._committed(client, demo_topics, 0, range(3))
        assert self._last(client, demo_topics) == Place(1, 2)
        assert client.transactions.outcome(txn) == "UNDECIDED"
        client.transactions.abort(txn)

    def test_the_furthest_partition_decides(self, client: Client, demo_topics: Topics) -> None:
        self._committed(client, demo_topics, 0, range(5))
        self._committed(client, demo_topics, 1, range(5, 7))
        assert self._last(client, demo_topics) == Place(1, 6)

    def test_messages_of_others_are_passed_over_however_many(
        self, client: Client, demo_topics: Topics
    ) -> None:
        self._committed(client, demo_topics, 0, range(3))
        with client.producer(demo_topics.flights) as other:
            for _ in range(1200):
                other.send(b"{}", partition=0)
        assert self._last(client, demo_topics) == Place(1, 2)

    def _last(self, client: Client, topics: Topics) -> Place:
        return last_committed(client, topics.flights, [0, 1], producer=PRODUCERS[0])

    def _committed(self, client: Client, topics: Topics, partition: int, positions: range) -> None:
        client.transactions.commit(self._left_open(client, topics, partition, positions))

    def _left_open(self, client: Client, topics: Topics, partition: int, positions: range) -> str:
        txn = client.transaction()
        producer = client.producer(topics.flights, name=PRODUCERS[0])
        for position in positions:
            properties = Place(1, position).properties()
            producer.send(b"{}", properties=properties, partition=partition, txn=txn)
        producer.flush()
        return txn.txn_id


def _options(topics: Topics, *, limit: int = LIMIT, seed: int = SEED) -> ReplayOptions:
    return ReplayOptions(
        topics=topics, seed=seed, rate=None, limit=limit, hang_timeout=1, long_hang_timeout=2
    )


def _replay(client: Client, flights: Flights, options: ReplayOptions) -> list[Replay]:
    """Run both producers to the limit."""
    stop = Stop()
    replays = [
        Replay(client, flights, options, producer=producer, stop=stop)
        for producer in dict.fromkeys(PRODUCERS)
    ]
    threads = [Thread(target=replay.run) for replay in replays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replays


def _process(
    server: Served, topics: Topics, data: Path, *arguments: str
) -> subprocess.Popen[bytes]:
    speed = arguments or ("--max-speed",)
    command = [
        *(sys.executable, "-m", "txnconsole.demo", "replay", "--namespace", topics.namespace),
        *("--seed", str(SEED), "--limit", str(LIMIT), "--data", str(data)),
        *("--hang-timeout", "1", "--long-hang-timeout", "2", *speed),
    ]
    environment = {
        **server.environment,
        "TXNCONSOLE_URL": server.url,
        "TXNCONSOLE_TOKEN": server.token("admin"),
    }
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)


def _kill_after(stored: int, server: Served, client: Client, topics: Topics, data: Path) -> None:
    """Kill a replay when the log holds so many messages. At this speed it has seconds left then."""
    with _process(server, topics, data, "--rate", "60") as process:
        assert eventually(lambda: process.poll() is not None or _stored(client, topics) > stored)
        assert process.stderr is not None
        assert process.poll() is None, process.stderr.read()
        process.kill()


def _seen(client: Client, topics: Topics) -> dict[int, list[Place]]:
    return committed(client, topics.flights, PARTITIONS)


def _stored(client: Client, topics: Topics) -> int:
    """Messages and markers in the busiest partition; some 300 when the replay ends."""
    return client.partition(topics.flights, 1).last_offset + 1

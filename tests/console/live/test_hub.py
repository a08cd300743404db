"""The hub: one reading a channel, nothing read for nobody, and slow listeners told to resync."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from engine.model.errors import PartitionUnavailable
from txnconsole.console.live.feed import Reading, digest
from txnconsole.console.live.hub import QUEUE_FRAMES, Hub, Listener, TooManyStreams

INTERVAL = 0.01


class CountingFeed:
    """A feed that changes on every reading."""

    def __init__(self) -> None:
        self.readings = 0
        self.error: Exception | None = None
        self.changes = True

    def read(self) -> Reading:
        self.readings += 1
        if self.error is not None:
            raise self.error
        change = {"n": self.readings} if self.changes else None
        return Reading(str(self.readings), change)


@pytest.fixture
def feed() -> CountingFeed:
    return CountingFeed()


def run(scenario: Callable[[Hub], object], **options: Any) -> None:
    """Run a scenario on a loop of its own, within a deadline."""

    async def limited() -> None:
        async with asyncio.timeout(60):
            given = {"count_firing": lambda: None} | options
            await scenario(Hub(interval=INTERVAL, **given))  # type: ignore[misc]

    asyncio.run(limited())


def test_a_listener_gets_hello_then_changes(feed: CountingFeed) -> None:
    async def scenario(hub: Hub) -> None:
        listener = hub.join("a", lambda: feed)
        hello = await listener.next(60)
        assert hello is not None
        assert hello.startswith("id: 1\nevent: hello\n")
        delta = await listener.next(60)
        assert delta is not None
        assert delta.startswith('id: 2\nevent: delta\ndata: {"n":2}')

    run(scenario)


def test_who_joins_later_gets_hello_with_the_newest_position(feed: CountingFeed) -> None:
    async def scenario(hub: Hub) -> None:
        first = hub.join("a", lambda: feed)
        for _ in range(3):
            await first.next(60)
        second = hub.join("a", lambda: feed)
        hello = await second.next(60)
        assert hello is not None
        assert "event: hello" in hello
        assert int(hello.split()[1]) >= 3

    run(scenario)


def test_two_listeners_share_one_reading(feed: CountingFeed) -> None:
    async def scenario(hub: Hub) -> None:
        made = []

        def make() -> CountingFeed:
            made.append(feed)
            return feed

        one, two = hub.join("a", make), hub.join("a", make)
        assert await one.next(60) == await two.next(60)
        assert await one.next(60) == await two.next(60)
        assert len(made) == 1

    run(scenario)


def test_nothing_is_read_once_the_last_one_has_left(feed: CountingFeed) -> None:
    async def scenario(hub: Hub) -> None:
        listener = hub.join("a", lambda: feed)
        await listener.next(60)
        hub.leave("a", listener)
        hub.leave("a", listener)
        assert hub.streams == 0
        before = feed.readings
        other = hub.join("b", CountingFeed)
        for _ in range(5):
            await other.next(60)
        assert feed.readings <= before + 1  # One may have been under way.

    run(scenario)


def test_a_channel_without_change_ticks(feed: CountingFeed) -> None:
    async def scenario(hub: Hub) -> None:
        listener = hub.join("a", lambda: feed)
        await listener.next(60)
        feed.changes = False
        texts = [await listener.next(60) for _ in range(3)]
        assert "event: tick" in str(texts[-1])

    run(scenario)


def test_a_reading_that_fails_is_told_and_the_channel_goes_on(
    feed: CountingFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.live.hub.INTERVAL_FAILING", INTERVAL)

    async def scenario(hub: Hub) -> None:
        feed.error = PartitionUnavailable("broker-2 is down.")
        listener = hub.join("a", lambda: feed)
        fault = await listener.next(60)
        assert fault is not None
        assert "event: fault" in fault
        assert '"status":503,"message":"broker-2 is down."' in fault
        feed.error = None
        while "event: hello" not in str(text := await listener.next(60)):
            assert "event: fault" in str(text)

    run(scenario)


def test_who_joins_while_a_channel_cannot_be_read_is_told_so_and_not_where_it_stood(
    feed: CountingFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.live.hub.INTERVAL_FAILING", INTERVAL)

    async def scenario(hub: Hub) -> None:
        first = hub.join("a", lambda: feed)
        assert "event: hello" in str(await first.next(60))
        feed.error = PartitionUnavailable("broker-2 is down.")
        while "event: fault" not in str(await first.next(60)):
            pass
        later = hub.join("a", lambda: feed)
        assert "broker-2 is down." in str(await later.next(60))
        feed.error = None
        for listener in (first, later):  # A tick would tell nobody what was missed meanwhile.
            while "event: fault" in (text := str(await listener.next(60))):
                pass
            assert "event: hello" in text

    run(scenario)


def test_a_reading_that_does_not_come_back_is_told_until_it_does() -> None:
    release, stuck = threading.Event(), threading.Event()

    class Freezing(CountingFeed):
        def read(self) -> Reading:
            if self.readings:
                stuck.set()
                release.wait(60)
            return super().read()

    async def scenario(hub: Hub) -> None:
        first = hub.join("a", Freezing)
        while "have not answered yet" not in str(await first.next(60)):
            pass
        assert stuck.is_set()
        later = hub.join("a", Freezing)
        for _ in range(2):
            assert "have not answered yet" in str(await later.next(60))
        release.set()
        for listener in (first, later):
            while "event: fault" in (text := str(await listener.next(60))):
                pass
            assert text.startswith("id: 2\nevent: hello\n")

    run(scenario, unanswered=INTERVAL)


def test_djangos_tables_that_are_away_are_told_by_the_database_they_stand_in(
    feed: CountingFeed,
) -> None:
    async def scenario(hub: Hub) -> None:
        feed.error = OperationalError("couldn't get a connection after 5.00 sec")
        fault = await hub.join("a", lambda: feed).next(60)
        assert "The coordinators' database cannot be reached; try again." in str(fault)

    run(scenario)


def test_a_defect_does_not_end_the_channel_nor_show_itself(
    feed: CountingFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.live.hub.INTERVAL_FAILING", INTERVAL)

    async def scenario(hub: Hub) -> None:
        feed.error = KeyError("secret")
        listener = hub.join("a", lambda: feed)
        first, second = await listener.next(60), await listener.next(60)
        assert "event: fault" in str(first)
        assert "secret" not in str(first)
        assert "event: fault" in str(second)

    run(scenario)


def test_a_listener_that_does_not_keep_up_is_told_to_read_again() -> None:
    async def scenario(_: Hub) -> None:
        listener = Listener()
        for number in range(QUEUE_FRAMES + 1):
            listener.put(f"frame {number}", position=str(number))
        text = await listener.next(1)
        assert text == f"id: {QUEUE_FRAMES}\nevent: resync\ndata: {{}}\n\n"
        assert await listener.next(0.01) is None

    run(scenario)


def test_who_did_not_keep_up_is_told_how_many_alerts_fire_too(feed: CountingFeed) -> None:
    """A page that reads itself again does not read that."""

    async def scenario(hub: Hub) -> None:
        listener = hub.join("a", lambda: feed, hears_alerts=True)
        while feed.readings < 2 * QUEUE_FRAMES:
            await asyncio.sleep(INTERVAL)
        hub.leave("a", listener)
        found = []
        while (text := await listener.next(INTERVAL)) is not None:
            found.append(text)
        resync = max(place for place, text in enumerate(found) if "event: resync" in text)
        assert any("event: alerts" in text for text in found[resync:])

    run(scenario, count_firing=lambda: 3)


def test_a_full_hub_refuses_and_has_room_again_after_one_left(feed: CountingFeed) -> None:
    async def scenario(hub: Hub) -> None:
        listener = hub.join("a", lambda: feed)
        assert hub.is_full
        with pytest.raises(TooManyStreams):
            hub.join("b", lambda: feed)
        hub.leave("a", listener)
        hub.join("b", lambda: feed)

    run(scenario, max_streams=1)


def test_a_slow_reading_holds_up_no_other_channel(feed: CountingFeed) -> None:
    release = threading.Event()

    class Slow(CountingFeed):
        def read(self) -> Reading:
            release.wait(60)
            return super().read()

    async def scenario(hub: Hub) -> None:
        slow = hub.join("slow", Slow)
        quick = hub.join("quick", lambda: feed)
        for _ in range(5):
            assert await quick.next(60) is not None
        release.set()
        assert await slow.next(60) is not None

    run(scenario)


def test_who_may_know_is_told_how_many_alerts_fire_when_that_changes(feed: CountingFeed) -> None:
    firing: list[int | None] = [2]
    feed.changes = False

    async def scenario(hub: Hub) -> None:
        first = hub.join("a", lambda: feed, hears_alerts=True)
        another = hub.join("a", lambda: feed)
        assert "event: hello" in str(await first.next(60))
        assert await first.next(60) == 'event: alerts\ndata: {"firing":2}\n\n'
        for unchanged in (2, None):
            firing[0] = unchanged
            for _ in range(3):
                assert "event: tick" in str(await first.next(60))
        later = hub.join("a", lambda: feed, hears_alerts=True)
        assert "event: hello" in str(await later.next(60))
        assert '{"firing":2}' in str(await later.next(60))
        firing[0] = 0
        while "event: tick" in (text := str(await first.next(60))):
            pass
        assert '{"firing":0}' in text
        assert "event: hello" in str(await another.next(60))
        assert "alerts" not in str([await another.next(60) for _ in range(8)])

    run(scenario, count_firing=lambda: firing[0])


def test_a_digest_is_the_same_in_every_process() -> None:
    assert digest("a", [1, None]) == "78dc53cbc70d"

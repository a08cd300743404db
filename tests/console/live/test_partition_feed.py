"""Frames of a partition on the real engine: complete from an offset on, and idempotent."""

from __future__ import annotations

from typing import Any

import pytest

from engine import Engine
from engine.model.errors import TopicNotFound
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName
from engine.model.txn_status import TxnAction
from tests.console.conftest import TOPIC, Orders, begin, finish, produce
from txnconsole.access.payloads import EVERYTHING
from txnconsole.console.live import partition_feed
from txnconsole.console.live.partition_feed import PartitionFeed
from txnconsole.console.log_window import read_window

pytestmark = pytest.mark.django_db


def change(feed: PartitionFeed) -> dict[str, Any]:
    reading = feed.read()
    assert reading.change is not None
    return dict(reading.change)


@pytest.fixture
def feed(orders: Orders) -> PartitionFeed:
    """A feed that has read once."""
    made = PartitionFeed(orders.partition, reads_messages=True)
    made.read()
    return made


def test_nothing_is_sent_while_nothing_changes(feed: PartitionFeed) -> None:
    assert feed.read().change is None


def test_the_position_is_the_same_as_the_window_of_another_process(
    orders: Orders, engine: Engine
) -> None:
    first, second = (
        PartitionFeed(orders.partition, reads_messages=True),
        PartitionFeed(orders.partition, reads_messages=True),
    )
    assert first.read().position == second.read().position
    assert (
        first.read().position
        == read_window(engine, orders.partition, at=None, sight=EVERYTHING)["seq"]
    )


def test_new_entries_come_once_from_the_offset_after_the_last(
    feed: PartitionFeed, orders: Orders, engine: Engine
) -> None:
    produce(engine, orders.partition, "a", "b")
    sent = change(feed)
    assert sent["from"] == 8
    assert [entry[0] for entry in sent["entries"]] == [8, 9]
    assert sent["summary"]["last"] == 9
    assert feed.read().change is None


def test_frames_have_keys_and_sizes_but_no_payloads(
    feed: PartitionFeed, orders: Orders, engine: Engine
) -> None:
    produce(engine, orders.partition, "secret-payload")
    (entry,) = change(feed)["entries"]
    assert entry[1:4] == ["m", None, "k-secret-payload"]
    assert entry[5] == len("secret-payload")


def test_an_end_is_told_by_its_marker_and_moves_the_stable_position(
    feed: PartitionFeed, orders: Orders, engine: Engine
) -> None:
    finish(engine, orders.open, TxnAction.ABORT)
    sent = change(feed)
    assert [entry[1:3] for entry in sent["entries"]] == [["a", str(orders.open)]]
    assert sent["txns"] == {}
    assert sent["summary"]["stable"] == sent["summary"]["last"] == 8


def test_a_decision_is_told_before_its_marker_stands(
    feed: PartitionFeed, orders: Orders, engine: Engine
) -> None:
    engine.coordinator.end(orders.open, TxnAction.COMMIT)
    sent = change(feed)
    assert sent["entries"] == []
    assert sent["from"] == 8
    assert sent["txns"][str(orders.open)][0] == "COMMITTING"


def test_too_many_new_entries_ask_the_page_to_read_its_window(
    feed: PartitionFeed, orders: Orders, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_feed, "MAX_ENTRIES", 3)
    produce(engine, orders.partition, *"abcd")
    sent = change(feed)
    assert (sent["from"], sent["entries"]) == (12, [])
    produce(engine, orders.partition, "e")
    assert change(feed)["from"] == 12


def test_of_a_topic_that_is_made_anew_a_page_reads_its_window_again(
    feed: PartitionFeed, orders: Orders, engine: Engine
) -> None:
    """However long the new one is: what a page knows is of the one before."""
    finish(engine, orders.open, TxnAction.COMMIT)
    position = feed.read().position
    last = engine.log.status(orders.partition).last_offset
    engine.topics.delete(TOPIC)
    with pytest.raises(TopicNotFound):
        feed.read()
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    produce(engine, orders.partition, *"abcdefghi"[: last + 1])
    assert engine.log.status(orders.partition).last_offset == last
    sent = change(feed)
    assert sent["from"] > last + 1
    assert feed.read().position != position
    produce(engine, orders.partition, "more")
    assert [entry[0] for entry in change(feed)["entries"]] == [last + 1]


def test_a_partition_that_is_not_there_is_an_error(engine: Engine) -> None:
    with pytest.raises(TopicNotFound):
        PartitionFeed(PartitionName(TOPIC, 0), reads_messages=True).read()


def test_a_busy_partition_tells_all_that_is_unfinished(
    feed: PartitionFeed, orders: Orders, engine: Engine
) -> None:
    other = begin(engine)
    produce(engine, orders.partition, "x", txn_id=other)
    assert list(change(feed)["txns"]) == [str(orders.open), str(other)]

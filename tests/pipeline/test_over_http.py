"""Reading over HTTP: in committed order, and while the log's start moves on. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import pytest
from structlog.testing import capture_logs

from tests.server import Served
from txnconsole.client import BatchLimits, Client, TopicNotFound
from txnconsole.client.answers import TopicInfo
from txnconsole.pipeline.access import COMMITTED, READ_COMMITTED
from txnconsole.pipeline.data_loss import DataLost
from txnconsole.pipeline.filters import Bounds
from txnconsole.pipeline.messages import MESSAGE_SCHEMA, arrow_schema
from txnconsole.pipeline.offsets import OffsetRange, Place, PositionLost, between
from txnconsole.pipeline.options import Connection
from txnconsole.pipeline.over_http import HttpAccess

_ALL = arrow_schema(MESSAGE_SCHEMA)
_PLACE = Place("public/default/flights", 0)


@dataclass
class Dropping:
    """A server that answers no message below 50, where its log begins by now."""

    next_offset: int = 0

    def client(self) -> Dropping:
        return self

    def reader(self, *_: object, from_offset: int, **__: object) -> Dropping:
        self.next_offset = from_offset
        return self

    def fetch(self) -> SimpleNamespace:
        self.next_offset = 60
        return SimpleNamespace(messages=[])

    def partition(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(log_start_offset=50)


def _read(lower: int, *, fails: bool) -> None:
    access = HttpAccess(
        cast("Connection", Dropping()), _PLACE.topic, READ_COMMITTED, fail_on_data_loss=fails
    )
    task = OffsetRange(_PLACE, lower, 60)
    assert sum(b.num_rows for b in access.read(task, Bounds(), arrow_schema(MESSAGE_SCHEMA))) == 0


def test_committed_order_passes_an_open_transaction_and_is_cut_where_it_is_told(
    client: Client, credentials: dict[str, str], new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    place = Place(topic, 0)
    source = HttpAccess(Connection.of(credentials), topic, READ_COMMITTED, COMMITTED)
    with client.producer(topic, limits=BatchLimits(messages=1)) as producer:
        hanging, large = client.transaction(), client.transaction()
        for number in range(3):
            producer.send(b"l%d" % number, txn=large)
            producer.send(b"n%d" % number)
        producer.send(b"open", txn=hanging)
        producer.send(b"n3")
        large.commit(wait=60)
        producer.send(b"n4")
    end = source.positions()[place].end
    whole = _rows(source, place, 0, end)
    assert [text for text, _ in whole] == ["n0", "n1", "n2", "n3", "l0", "l1", "l2", "n4"]
    assert [at for _, at in whole] == [1, 3, 5, 7, 8, 8, 8, 9]
    for cut in range(1, end):
        assert _rows(source, place, 0, cut) + _rows(source, place, cut, end) == whole
    hanging.commit(wait=60)
    assert _rows(source, place, 0, end) == whole
    assert _rows(source, place, end, end + 1) == [("open", end)]


def _rows(source: HttpAccess, place: Place, lower: int, upper: int) -> list[tuple[str, int]]:
    return [
        (row["payload"].decode(), row["readable_at"])
        for task in source.tasks([OffsetRange(place, lower, upper)], Bounds())
        for batch in source.read(task, Bounds(), arrow_schema(MESSAGE_SCHEMA))
        for row in batch.to_pylist()
    ]


def test_a_topic_that_is_made_anew_between_planning_and_reading_is_not_taken_for_the_old_one(
    server: Served, client: Client, credentials: dict[str, str], new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    place = Place(topic, 0)
    with client.producer(topic) as producer:
        producer.send(b"old")
    source = HttpAccess(Connection.of(credentials), topic, READ_COMMITTED)
    position = source.positions()[place]
    [task] = source.tasks(
        between({place: 0}, {place: position.end}, {place: position.ledger}), Bounds()
    )
    assert [each.num_rows for each in source.read(task, Bounds(), _ALL)] == [1]
    with server.client("admin") as admin:
        admin.delete(f"/topics/{topic}").raise_for_status()
    client.create_topic(topic, partitions=1)
    with client.producer(topic) as producer:
        producer.send(b"new")
    with pytest.raises(PositionLost, match="made anew, since this read was planned"):
        list(source.read(task, Bounds(), _ALL))


def test_a_topic_that_is_deleted_after_its_batch_was_planned_fails_its_task_or_is_left_out(
    server: Served, client: Client, credentials: dict[str, str], new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    with server.client("admin") as admin:
        admin.delete(f"/topics/{topic}").raise_for_status()
    place = Place(topic, 0)
    task = OffsetRange(place, 3, 7)
    source = HttpAccess(Connection.of(credentials), f"{topic[:-1]}?", READ_COMMITTED)
    with capture_logs() as told:
        assert list(source.read(task, Bounds(), _ALL)) == []
    assert told == [
        {
            "event": "topic_deleted_before_it_was_read",
            "log_level": "warning",
            "offsets": {str(place): [3, 7]},
        }
    ]
    careful = replace(source, fail_on_data_loss=True)
    with pytest.raises(DataLost, match=r"deleted .*:0 from 3 to 7.*failOnDataLoss=false"):
        list(careful.read(task, Bounds(), _ALL))


def test_a_topic_that_is_deleted_while_partitions_are_looked_up_is_none_of_the_pattern(
    server: Served, client: Client, credentials: dict[str, str], new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)

    class Late(HttpAccess):
        """Its topics are deleted as soon as they have been listed."""

        def _topics(self, client: Client) -> list[TopicInfo]:
            listed = super()._topics(client)
            with server.client("admin") as admin:
                admin.delete(f"/topics/{topic}").raise_for_status()
            return listed

    assert Late(Connection.of(credentials), f"{topic[:-1]}?", READ_COMMITTED).positions() == {}
    client.create_topic(topic, partitions=1)
    with pytest.raises(TopicNotFound):
        Late(Connection.of(credentials), topic, READ_COMMITTED).positions()


def test_a_task_whose_messages_went_while_it_read_fails_or_tells_so() -> None:
    with pytest.raises(DataLost, match="flights:0 from 7 to 50"):
        _read(7, fails=True)
    with capture_logs() as told:
        _read(7, fails=False)
    assert [line["offsets"] for line in told] == [{str(_PLACE): [7, 50]}]
    with capture_logs() as told:
        _read(50, fails=True)
    assert told == []

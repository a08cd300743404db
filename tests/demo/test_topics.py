"""The demo's topics: kept small, also those of an earlier run."""

from __future__ import annotations

import secrets

from tests.server import Served
from txnconsole.client import Client
from txnconsole.demo import topics
from txnconsole.demo.schedule import PARTITIONS
from txnconsole.demo.topics import Topics


def test_new_topics_have_a_retention_and_a_second_run_finds_them(
    client: Client, demo_topics: Topics
) -> None:
    topics.prepare(client, demo_topics)
    for name in (demo_topics.flights, demo_topics.delays):
        assert (client.topic(name).retention_bytes or 0) > 0


def test_topics_of_before_there_was_retention_get_one_and_a_chosen_one_stays(
    client: Client,
) -> None:
    found = Topics(f"demo/{secrets.token_hex(6)}")
    client.create_topic(found.flights, partitions=PARTITIONS)
    client.create_topic(found.delays, partitions=2, retention_ms=1000)
    topics.prepare(client, found)
    assert client.topic(found.flights).retention_bytes is not None
    assert client.topic(found.delays).retention_bytes is None


def test_who_may_not_change_topics_uses_them_as_they_are(client: Client, server: Served) -> None:
    found = Topics(f"demo/{secrets.token_hex(6)}")
    client.create_topic(found.flights, partitions=PARTITIONS)
    client.create_topic(found.delays, partitions=2)
    with Client(server.url, server.token("producer,consumer")) as program:
        topics.prepare(program, found)
    assert client.topic(found.flights).retention_bytes is None

"""The channel of one subscription."""

from __future__ import annotations

import pytest
from django.test import Client

from engine import Engine
from engine.model.errors import InvalidRequest, SubscriptionNotFound
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_status import TxnAction
from tests.console.conftest import TOPIC, Orders, finish, produce
from tests.console.live.positions import position_of
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission, Role
from txnconsole.console.live.channels import channel_named
from txnconsole.console.live.subscription_feed import SubscriptionFeed

VIEWER = Principal("ann", frozenset({Role.VIEWER}))


def test_deliveries_acknowledgements_and_ends_are_told_once(orders: Orders, engine: Engine) -> None:
    feed = SubscriptionFeed(orders.subscription)
    changed = {"changed": True}
    assert feed.read().change == changed
    assert feed.read().change is None
    finish(engine, orders.open, TxnAction.ABORT)
    assert feed.read().change == changed
    received = engine.receive(orders.subscription, "c9", max_messages=10)
    assert feed.read().change == changed
    engine.acknowledge(orders.subscription, "c9", [received[0].message_id])
    assert feed.read().change == changed
    assert feed.read().change is None
    produce(engine, orders.partition, "one more")
    assert feed.read().change == changed


def test_what_a_transaction_holds_of_it_is_told(orders: Orders, engine: Engine) -> None:
    other = SubscriptionName(TOPIC, "another")
    feed = SubscriptionFeed(orders.subscription)
    feed.read()
    engine.subscriptions.create(other, engine.subscriptions.get(orders.subscription).settings)
    assert feed.read().change is None  # Another subscription's way is no news.
    produce(engine, PartitionName(TOPIC, 1), "for all")
    (received,) = engine.receive(orders.subscription, "c9", max_messages=1)
    feed.read()
    engine.acknowledge(orders.subscription, "c9", [received.message_id], txn_id=orders.open)
    assert feed.read().change == {"changed": True}


def test_the_page_stands_where_the_feed_does(orders: Orders, viewer: Client) -> None:
    page = position_of(viewer, f"/subscriptions/{TOPIC}/billing")
    assert page == SubscriptionFeed(orders.subscription).read().position


def test_of_later_partitions_the_page_does_not_say_where_it_stands(
    orders: Orders, viewer: Client
) -> None:
    page = viewer.get(f"/subscriptions/{TOPIC}/billing?from=1").content.decode()
    assert f'data-channel="sub:{orders.subscription}" data-position=""' in page


def test_one_that_is_not_there_fails(orders: Orders) -> None:
    with pytest.raises(SubscriptionNotFound):
        SubscriptionFeed(SubscriptionName(TOPIC, "nobody")).read()


def test_its_channel_is_for_those_who_may_read_topics() -> None:
    channel = channel_named(f"sub:{TOPIC}/billing", VIEWER)
    assert (channel.name, channel.permission) == (f"sub:{TOPIC}/billing", Permission.TOPIC_READ)
    for text in ("sub:", "sub:billing", f"sub:{TOPIC}/", f"sub:{TOPIC}/a b"):
        with pytest.raises(InvalidRequest):
            channel_named(text, VIEWER)

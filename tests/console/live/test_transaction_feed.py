"""What a transaction's page is told of while the transaction goes on."""

from __future__ import annotations

from typing import cast

import pytest
from django.test import Client

from engine import Engine
from engine.model.errors import TransactionNotFound
from engine.model.topic_name import PartitionName
from engine.model.txn_status import TxnAction
from tests.console.conftest import TOPIC, Orders, begin, finish, produce, signed_in
from tests.console.live.positions import position_of
from txnconsole.console.live.feed import Reading
from txnconsole.console.live.transaction_feeds import OwnTransactionsFeed, TransactionFeed


def test_what_it_writes_and_acknowledges_is_told_once(orders: Orders, engine: Engine) -> None:
    feed = TransactionFeed(orders.open)
    assert feed.read().change == {"status": "OPEN"}
    assert feed.read().change is None
    produce(engine, orders.partition, "third", txn_id=orders.open)
    assert feed.read().change == {"status": "OPEN"}
    assert feed.read().change is None
    produce(engine, PartitionName(TOPIC, 1), "for all")
    (message,) = engine.receive(orders.subscription, "c2", max_messages=1)
    engine.acknowledge(orders.subscription, "c2", [message.message_id], txn_id=orders.open)
    assert feed.read().change == {"status": "OPEN"}
    finish(engine, orders.open, TxnAction.COMMIT)
    assert feed.read().change == {"status": "COMMITTED"}
    assert feed.read().change is None


def test_the_page_stands_where_the_feed_does(orders: Orders, viewer: Client) -> None:
    page = position_of(viewer, f"/transactions/{orders.open}")
    assert page == TransactionFeed(orders.open).read().position


def test_an_owner_s_page_stands_where_the_owner_s_feed_does(orders: Orders, db: None) -> None:
    alice = signed_in("producer", name="alice")
    page = position_of(alice, f"/transactions/{orders.open}")
    assert page == TransactionFeed(orders.open, "alice").read().position
    assert position_of(alice, "/transactions") == OwnTransactionsFeed("alice").read().position


def test_to_another_owner_a_transaction_s_feed_has_none(orders: Orders) -> None:
    with pytest.raises(TransactionNotFound, match=f"There is no transaction {orders.open}"):
        TransactionFeed(orders.open, "bob").read()


def test_an_owner_s_feed_tells_of_their_own_and_of_nothing_else(
    orders: Orders, engine: Engine
) -> None:
    feed = OwnTransactionsFeed("alice")
    first = feed.read()
    assert first.change is not None
    assert first.change["figures"] == {"open": 1}
    assert len(cast("list[int]", first.change["opened"])) == 3
    other = engine.coordinator.open(owner="bob", tc_id=3, timeout_ms=60_000)
    engine.coordinator.end(other.txn_id, TxnAction.COMMIT)
    assert feed.read() == Reading(first.position, None)
    begin(engine)
    opened = feed.read().change
    assert opened is not None
    assert opened["figures"] == {"open": 2}
    finish(engine, orders.open, TxnAction.ABORT)
    ended = feed.read().change
    assert ended is not None
    assert ended["opened"] == opened["opened"]
    assert feed.read().change is None

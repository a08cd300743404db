"""What a transaction's page is told of while the transaction goes on."""

from __future__ import annotations

import re

from django.test import Client

from engine import Engine
from engine.model.topic_name import PartitionName
from engine.model.txn_status import TxnAction
from tests.console.conftest import TOPIC, Orders, finish, produce
from txnconsole.console.live.transaction_feeds import TransactionFeed


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
    page = viewer.get(f"/transactions/{orders.open}").content.decode()
    found = re.search(r'data-position="(\w+)"', page)
    assert found is not None
    assert found[1] == TransactionFeed(orders.open).read().position

"""The channel of the coordinators."""

from __future__ import annotations

from django.test import Client

from engine import Engine
from engine.model.txn_status import TxnAction
from tests.console.conftest import Orders, begin, finish
from tests.console.live.positions import position_of
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission, Role
from txnconsole.console.live.channels import channel_named
from txnconsole.console.live.coordinators_feed import CoordinatorsFeed


def test_what_changes_of_a_coordinator_is_told_once(orders: Orders, engine: Engine) -> None:
    feed = CoordinatorsFeed()
    assert feed.read().change == {"changed": True}
    assert feed.read().change is None
    begun = begin(engine)
    assert feed.read().change == {"changed": True}
    finish(engine, begun, TxnAction.COMMIT)
    assert feed.read().change == {"changed": True}
    assert feed.read().change is None
    engine.coordinator.scale(20)
    assert feed.read().change == {"changed": True}


def test_the_page_stands_where_the_feed_does(orders: Orders, viewer: Client) -> None:
    assert position_of(viewer, "/coordinators") == CoordinatorsFeed().read().position
    assert 'data-channel="tc"' in viewer.get("/coordinators/3").content.decode()


def test_the_channel_is_for_those_who_may_read_coordinators() -> None:
    channel = channel_named("tc", Principal("ann", frozenset({Role.VIEWER})))
    assert (channel.name, channel.permission) == ("tc", Permission.COORDINATOR_READ)

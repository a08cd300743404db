"""The list of subscriptions and the page of one."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from engine import Engine
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName
from tests.console.conftest import TOPIC, Orders, begin, produce, words
from tests.engine.support import sql, unreachable
from txnconsole.audit.models import AuditEntry
from txnconsole.console.views.subscriptions import SeekForm
from txnconsole.refusals.models import Refusal

HERE = f"/subscriptions/{TOPIC}/billing"
REASON = "the consumer lost what it had read"


def test_subscriptions_are_paged(
    orders: Orders, engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.views.subscriptions.PAGE_ROWS", 2)
    for name in ("alpha", "zulu"):
        engine.subscriptions.create(SubscriptionName(TOPIC, name), SubscriptionSettings())
    first = viewer.get("/subscriptions").content.decode()
    assert re.findall(r'id="sub-[^"]*/(\w+)"', first) == ["alpha", "billing"]
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = viewer.get(f"/subscriptions{following[1]}").content.decode()
    assert re.findall(r'id="sub-[^"]*/(\w+)"', second) == ["zulu"]
    assert viewer.get("/subscriptions?cursor=x").status_code == 400


def test_a_page_tells_the_fate_of_every_offset(orders: Orders, viewer: Client) -> None:
    text = words(viewer, f"{HERE}?partition=0")
    assert "0 0 1 Acknowledged" in text
    assert f"1 1 1 Held by a transaction {orders.open}" in text
    assert "2 4 3 Nobody gets it" in text
    assert "5 7 3 Above the stable position" in text


def test_a_pending_acknowledgement_tells_for_how_long_it_has_been_held(
    engine: Engine, viewer: Client
) -> None:
    """From the first message that the transaction took there, whatever it takes later."""
    partition, name = PartitionName(TOPIC, 0), SubscriptionName(TOPIC, "billing")
    engine.topics.create(TOPIC, TopicSettings())
    engine.subscriptions.create(name, SubscriptionSettings())
    produce(engine, partition, "first")
    produce(engine, partition, "second")
    first, second = engine.receive(name, "c1", max_messages=2)
    txn_id, database = begin(engine), engine.log.locate(partition).database
    engine.acknowledge(name, "c1", [first.message_id], txn_id=txn_id)
    sql(database, "UPDATE broker.pending_ack SET since = since - interval '3 minutes'")
    engine.acknowledge(name, "c1", [second.message_id], txn_id=txn_id)
    text = words(viewer, HERE)
    assert "Type Held for" in text
    assert re.search(rf"{txn_id} 0 individual 3 min 0\d s 2 0.1 ", text), text
    sql(database, "UPDATE broker.pending_ack SET since = NULL")  # It was held before it was noted.
    assert f"{txn_id} 0 individual – 2 0\N{EN DASH}1 " in words(viewer, HERE)


def test_who_was_refused_stands_beside_who_holds(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    other = begin(engine)
    Refusal.objects.create(
        subscription=str(orders.subscription),
        partition=0,
        holder=str(orders.open),
        refused=str(other),
        consumer="c2",
        who="bob",
        first_offset=1,
        times=7,
    )
    answer = viewer.get(HERE).content.decode()
    drawing = re.search(r'<svg class="conflicts".*?</svg>', answer, re.S)
    assert drawing is not None
    assert drawing[0].count('class="holds"') == 1
    assert drawing[0].count('class="refused"') == 1
    assert f"{other} bob c2 0 1 {orders.open} 7" in words(viewer, HERE)


class Elements(HTMLParser):
    """Counts the elements of a page."""

    number = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.number += 1


def test_with_everything_full_the_page_keeps_its_budget_and_leads_to_what_it_leaves_out(
    engine: Engine, viewer: Client
) -> None:
    """Many partitions with several consumers, runs of one offset, holders and refusals."""
    name = SubscriptionName(TOPIC, "billing")
    engine.topics.create(TOPIC, TopicSettings(partitions=25))
    engine.subscriptions.create(name, SubscriptionSettings())
    produce(engine, PartitionName(TOPIC, 0), *map(str, range(256)))
    messages = engine.receive(name, "c4", max_messages=256)
    for number in range(1, 25):
        produce(engine, PartitionName(TOPIC, number), *map(str, range(12)))
    for consumer in ("c1", "c2", "c3"):
        engine.receive(name, consumer, max_messages=60)
    txns = [begin(engine) for _ in range(40)]
    for txn_id, message in zip(txns, messages[::2], strict=False):
        engine.acknowledge(name, "c4", [message.message_id], txn_id=txn_id)
    engine.acknowledge(name, "c4", [each.message_id for each in messages[1::2]])
    for number, txn_id in enumerate(txns):
        Refusal.objects.create(
            subscription=str(name),
            partition=0,
            holder=str(txn_id),
            refused=f"0:{9000 + number}",
            consumer="c2",
            who="bob",
            first_offset=number,
            times=1,
        )
    counted = Elements()
    text = viewer.get(HERE).content.decode()
    counted.feed(text)
    assert 'aria-label="Runs of offsets"' in text
    assert "More runs than the table shows" in text
    assert 1_000 < counted.number <= 1_500
    named = r"([\d,]+).([\d,]+ of [\d,]+ (?:pending|refusals))"
    assert re.findall(named, text) == [("1", "10 of 40 pending"), ("1", "10 of 40 refusals")]
    following = viewer.get(f"{HERE}?held=30&refused=10").content.decode()
    assert re.findall(named, following) == [("31", "40 of 40 pending"), ("11", "20 of 40 refusals")]


def test_a_broker_that_is_away_leaves_the_rest(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    broker = engine.topics.get(TOPIC).brokers[1]
    with unreachable(engine, broker):
        one = words(viewer, HERE)
        assert f"{broker} cannot be reached" in one
        assert "Its partitions are missing below." in one
        text = words(viewer, "/subscriptions")
        assert f"{broker} cannot be reached" in text
        assert str(orders.subscription) in text


def test_moving_it_needs_a_reason_and_the_place(
    orders: Orders, engine: Engine, operator: Client
) -> None:
    assert "Move" in words(operator, f"{HERE}/seek")
    missing = operator.post(f"{HERE}/seek", {"to": "offset", "reason": REASON})
    assert missing.status_code == 422
    assert "Say which offset" in missing.content.decode()
    body = {"to": "offset", "partition": "0", "offset": "0", "reason": REASON}
    held = operator.post(f"{HERE}/seek", body)
    assert held.status_code == 409
    assert str(orders.open) in held.content.decode()
    done = operator.post(f"{HERE}/seek", {**body, "force": "on"})
    assert done.status_code == 200, done.content
    assert f"Aborted for it: {orders.open}" in done.content.decode()
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.reason) == ("subscription.seek", REASON)
    [cursor] = [
        each
        for each in engine.subscriptions.describe(orders.subscription).partitions
        if each.partition == 0
    ]
    assert (cursor.mark_delete_offset, len(cursor.acked)) == (-1, 0)


def test_a_moment_is_in_the_readers_zone() -> None:
    with timezone.override(ZoneInfo("Asia/Kolkata")):
        form = SeekForm({"to": "moment", "moment": "2026-11-22 14:00:00", "reason": REASON})
        assert form.is_valid()
        assert form.target() == datetime(2026, 11, 22, 8, 30, tzinfo=UTC)
        assert form["moment"].label == "Moment (Asia/Kolkata)"


@pytest.mark.parametrize("moment", ["2026-10-25 02:30", "2026-03-29 02:30"])
def test_a_time_that_the_clock_shows_twice_or_never_is_asked_for_with_its_offset(
    moment: str,
) -> None:
    given = {"to": "moment", "reason": REASON}
    with timezone.override("Europe/Berlin"):
        form = SeekForm(given | {"moment": moment})
        assert "Add its offset" in form.errors["moment"][0]
        form = SeekForm(given | {"moment": "2026-10-25 02:30+02:00"})
        assert form.is_valid()
        assert form.target() == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_a_moment_leads_to_what_was_published_then(
    orders: Orders, engine: Engine, operator: Client
) -> None:
    engine.subscriptions.create(SubscriptionName(TOPIC, "fresh"), SubscriptionSettings())
    here = f"/subscriptions/{TOPIC}/fresh/seek"
    body = {"to": "moment", "moment": "2001-01-01 00:00:00", "reason": REASON}
    assert operator.post(here, body).status_code == 200
    assert operator.post(here, {**body, "moment": "soon"}).status_code == 422


def test_a_viewer_may_not_move_it(orders: Orders, viewer: Client) -> None:
    assert "Move… needs subscription.seek" in words(viewer, HERE)
    assert viewer.get(f"{HERE}/seek").status_code == 403


def test_readers_are_at_risk_then_stopped_where_a_transaction_holds_them_for_long(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    database = engine.log.locate(orders.partition).database
    pages = (HERE, "/subscriptions", f"/topics/{TOPIC}", f"/topics/{TOPIC}/partitions/0")
    pages += (f"/topics/{TOPIC}/partitions/0/subscriptions",)
    for page in pages:
        assert "At risk" not in words(viewer, page)
    sql(database, "UPDATE broker.ongoing_txn SET first_append_at = first_append_at - interval '1h'")
    assert "At risk Held back for 1 h 00 min; 4 offsets left" in words(viewer, HERE)
    for page in pages:
        assert "At risk" in words(viewer, page)
    sql(database, "UPDATE broker.cursor SET mark_delete = 4, acked = '{}'")
    for page in pages:
        text = words(viewer, page)
        assert "Stopped Held back for 1 h 00 min" in text
        assert "At risk" not in text


def test_a_subscription_with_something_left_elsewhere_is_not_called_stopped(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    database = engine.log.locate(orders.partition).database
    sql(database, "UPDATE broker.ongoing_txn SET first_append_at = first_append_at - interval '1h'")
    sql(database, "UPDATE broker.cursor SET mark_delete = 4, acked = '{}'")
    produce(engine, PartitionName(TOPIC, 1), "left", "over")
    told = (
        "At risk Held back for 1 h 00 min; stopped in 1 of 2 partitions, 2 offsets left in the"
        " others."
    )
    for page in (HERE, "/subscriptions"):
        assert told in words(viewer, page), page

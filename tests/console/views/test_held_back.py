"""The list of what is held back: all of it, in the order of the address, a page at a time."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from engine import Engine
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName
from tests.console.conftest import TOPIC, Orders, begin, produce
from tests.console.questions import FRAME, Questions
from tests.engine.support import sql
from txnconsole.console.views import held_back
from txnconsole.enginedb.clock import database_now
from txnconsole.queue import heartbeat
from txnconsole.queue.heartbeat import Beat
from txnconsole.trends.models import Sample, Sampler

_ROW = re.compile(r'id="held-[^"]*:(\d+)"')


@pytest.fixture
def partitions(engine: Engine) -> list[PartitionName]:
    """Three that are held back, the later ones by less and for less long."""
    engine.topics.create(TOPIC, TopicSettings(partitions=4))
    names = [PartitionName(TOPIC, number) for number in range(3)]
    for name, messages in zip(names, (1, 3, 2), strict=True):
        produce(engine, name, *("hidden",) * messages, txn_id=begin(engine))
        for broker in engine._brokers:  # Apart by more than passes between questions to brokers.
            sql(
                broker,
                "UPDATE broker.ongoing_txn SET first_append_at = first_append_at - interval '1h'",
            )
    produce(engine, PartitionName(TOPIC, 3), "seen")
    return names


@pytest.mark.parametrize(
    ("query", "order"), [("", ["1", "2", "0"]), ("?sort=longest", ["0", "1", "2"])]
)
def test_partitions_stand_in_the_order_that_the_address_asks_for(
    partitions: list[PartitionName], viewer: Client, query: str, order: list[str]
) -> None:
    text = viewer.get(f"/held-back{query}").content.decode()
    assert _ROW.findall(text) == order
    assert "3 partitions, held by 3 transactions" in text
    assert "transaction.abort_any" in text


def test_one_transaction_that_holds_all_of_them_is_said_to(
    engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "beats", lambda: [Beat("w", 1.0)])
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    txn_id = begin(engine)
    for number in range(2):
        produce(engine, PartitionName(TOPIC, number), "hidden", txn_id=txn_id)
    assert "2 partitions, held by 1 transaction<" in viewer.get("/held-back").content.decode()
    for broker in engine._brokers:
        sql(
            broker,
            "UPDATE broker.ongoing_txn SET first_append_at = first_append_at - interval '1h'",
        )
    text = viewer.get("/").content.decode()
    assert "held back for more than a minute, all by one transaction." in text


def test_a_long_list_goes_on_at_the_next_page(
    partitions: list[PartitionName], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_back, "PAGE_ROWS", 2)
    first = operator.get("/held-back").content.decode()
    assert _ROW.findall(first) == ["1", "2"]
    assert 'href="?from=2"' in first
    assert _ROW.findall(operator.get("/held-back?from=2").content.decode()) == ["0"]


def test_a_list_that_was_cut_says_so(
    partitions: list[PartitionName], viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_back, "KNOWN", 2)
    assert "there may be more" in viewer.get("/held-back").content.decode()


def test_an_order_that_is_none_is_refused_and_nothing_held_is_said(
    engine: Engine, viewer: Client
) -> None:
    assert viewer.get("/held-back?sort=x").status_code == 400
    assert "No partition is held back" in viewer.get("/held-back").content.decode()


def test_it_asks_each_database_once(orders: Orders, viewer: Client, questions: Questions) -> None:
    viewer.get("/held-back")
    with questions.at_most(FRAME + 5):  # Two brokers, the coordinators, and two of the samples.
        viewer.get("/held-back")
    with questions.at_most(5):  # No frame tells of alerts, and no samples.
        viewer.get("/held-back", headers={"HX-Request": "true"})


def test_the_overview_leads_there(
    partitions: list[PartitionName], viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.views.overview._HELD", 1)
    text = viewer.get("/?part=now", headers={"HX-Request": "true"}).content.decode()
    assert '<a class="num" href="/held-back">2 more</a>' in text


def test_what_was_held_back_is_drawn_and_told_as_a_table(db: None, viewer: Client) -> None:
    text = viewer.get("/held-back").content.decode()
    assert "Nobody has looked in this time" in text
    now = database_now()
    Sampler.objects.create(at=now)
    for ago, offsets in ((60, 5), (50, 18_546), (40, None), (30, 7)):
        Sample.objects.create(
            width_s=10, at=now - timedelta(seconds=ago), held_offsets=offsets, held_partitions=2
        )
    text = viewer.get("/held-back?part=history&range=15m").content.decode()
    assert 'At most <b class="num">18,546</b> offsets at once' in text
    [path] = re.findall(r'<path class="held" d="([^"]+)"', text)
    assert path.count("M") == 2  # Broken where nobody looked.
    rows = re.findall(r'<td class="right num">([^<]+)</td><td class="right num">2<', text)
    assert rows == ["7", "\N{EN DASH}", "18,546", "5"]


@pytest.mark.plans
def test_a_full_page_with_a_full_history_keeps_its_budget(engine: Engine, operator: Client) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=held_back.PAGE_ROWS + 5))
    for number in range(held_back.PAGE_ROWS + 5):
        produce(engine, PartitionName(TOPIC, number), "hidden", txn_id=begin(engine))
    now = database_now()
    Sampler.objects.create(at=now, previous=now)
    for ago in range(20, 3600, 10):
        Sample.objects.create(
            width_s=10, at=now - timedelta(seconds=ago), held_offsets=ago, held_partitions=1
        )
    text = operator.get("/held-back").content.decode()
    assert len(_ROW.findall(text)) == held_back.PAGE_ROWS
    # What scripts add once the page is shown has its place within the 1000 of the budget.
    assert len(re.findall("<[a-z]", text)) < 950

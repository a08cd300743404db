"""The search box: every way to name a thing leads to it; parts of names are looked for."""

from __future__ import annotations

import pytest
from django.test import Client

from engine import Engine
from engine.model.topic import TopicSettings
from engine.model.topic_name import TopicName
from tests.console.conftest import TOPIC, Orders
from txnconsole.console import finding

LOG = f"/topics/{TOPIC}/partitions/0/log"


def goes_to(client: Client, text: str) -> str:
    answer = client.get("/search", {"q": text})
    assert answer.status_code == 302, text
    return str(answer["Location"])


def test_every_form_of_a_transactions_id_leads_to_it(orders: Orders, viewer: Client) -> None:
    txn_id = orders.open
    most, least = txn_id.most_bits, txn_id.least_bits
    for text in (
        f"{txn_id}",
        f"({txn_id.tc_id},{txn_id.sequence})",
        f"{txn_id.tc_id},{txn_id.sequence}",
        f"({most},{least})",
        f"{most:016x}{least:016x}",
        f"0x{most:016x}{least:016x}",
    ):
        assert goes_to(viewer, text) == f"/transactions/{txn_id}"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (f"{TOPIC}", f"/topics/{TOPIC}"),
        (f"persistent://{TOPIC}", f"/topics/{TOPIC}"),
        (f"{TOPIC}:0", LOG),
        (f"{TOPIC}-partition-0", LOG),
        (f"{TOPIC}:0@5", f"{LOG}?at=5"),
        (f"{TOPIC}:0:5", f"{LOG}?at=5"),
        (f"{TOPIC}/billing", f"/subscriptions/{TOPIC}/billing"),
        ("bill", f"/subscriptions/{TOPIC}/billing"),
        # As alerts and the audit log name things, and as people say them.
        (f"partition:{TOPIC}:0", LOG),
        (f"topic:{TOPIC}", f"/topics/{TOPIC}"),
        (f"topic:persistent://{TOPIC}", f"/topics/{TOPIC}"),
        (f"subscription:{TOPIC}/billing", f"/subscriptions/{TOPIC}/billing"),
        ("subscription bill", f"/subscriptions/{TOPIC}/billing"),
        ("transaction:2:446", "/transactions/2:446"),
        ("txn:2:446", "/transactions/2:446"),
        ("Transaction 2:446", "/transactions/2:446"),
        ("coordinator 2", "/coordinators/2"),
        ("coordinator:2", "/coordinators/2"),
        # A part of a topic's name, with the number of a partition.
        ("order:1", f"/topics/{TOPIC}/partitions/1/log"),
        ("ORDERS-partition-1", f"/topics/{TOPIC}/partitions/1/log"),
        ("partition rders:0", LOG),
        ("orders:0@5", f"{LOG}?at=5"),
        ("coordin", "/coordinators"),
    ],
)
def test_names_lead_to_their_pages(orders: Orders, viewer: Client, text: str, address: str) -> None:
    assert goes_to(viewer, text) == address


@pytest.mark.parametrize(
    "text",
    [
        "orders:2",
        "topic:bill",
        "subscription:orders",
        "coordinator 16",
        "coordinator x",
        "partition orders:9",
    ],
)
def test_what_is_not_there_or_of_another_kind_is_not_found(
    orders: Orders, viewer: Client, text: str
) -> None:
    answer = viewer.get("/search", {"q": text})
    assert answer.status_code == 200
    assert "Nothing is called" in answer.content.decode()


def test_a_partition_of_several_topics_is_listed_for_each(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    other = TopicName("public", "default", "preorders")
    engine.topics.create(other, TopicSettings(partitions=2))
    items = viewer.get("/search/suggest", {"q": "orders:1"}).json()["items"]
    assert [(item["kind"], item["title"]) for item in items] == [
        ("Partition", f"{TOPIC}:1"),
        ("Partition", f"{other}:1"),
    ]


def test_names_that_begin_with_the_text_come_first(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    other = TopicName("public", "default", "all-bills")
    engine.topics.create(other, TopicSettings())
    items = viewer.get("/search/suggest", {"q": "bill"}).json()["items"]
    assert [item["title"] for item in items] == ["billing", str(other)]


def test_the_beginning_of_a_full_name_is_looked_for(orders: Orders, viewer: Client) -> None:
    """It has the form of a name, and there is none such."""
    found = viewer.get("/search/suggest", {"q": str(TOPIC)[:-2]}).json()
    assert found["exact"] is False
    assert [item["address"] for item in found["items"]] == [f"/topics/{TOPIC}"]
    assert viewer.get("/search/suggest", {"q": f"{TOPIC}/bill"}).json()["items"] == []


def test_a_message_id_leads_to_its_place_in_the_log(
    engine: Engine, orders: Orders, viewer: Client
) -> None:
    [message] = engine.log.browse(orders.partition, 6, 1).messages
    assert goes_to(viewer, str(message.message_id)) == f"{LOG}?at=6"


def test_of_several_names_all_are_listed(orders: Orders, viewer: Client) -> None:
    text = viewer.get("/search", {"q": "b"}).content.decode()
    assert f"/topics/{TOPIC}" in text
    assert "billing" in text
    assert "/subscriptions" in text


def test_suggestions_are_the_same_as_json(orders: Orders, viewer: Client) -> None:
    found = viewer.get("/search/suggest", {"q": "bill"}).json()
    assert found["exact"] is False
    assert found["items"] == [
        {
            "kind": "Subscription",
            "title": "billing",
            "detail": f"of {TOPIC}",
            "address": f"/subscriptions/{TOPIC}/billing",
        }
    ]
    assert viewer.get("/search/suggest", {"q": "3:17"}).json()["exact"] is True
    pages = viewer.get("/search/suggest").json()["items"]
    assert {"kind": "Page", "title": "Topics", "detail": "", "address": "/topics"} in pages


def test_only_pages_that_one_may_open_are_suggested(
    engine: Engine, viewer: Client, operator: Client
) -> None:
    for client, seen in ((viewer, False), (operator, True)):
        items = client.get("/search/suggest", {"q": "audit"}).json()["items"]
        assert bool(items) is seen


def test_it_says_when_not_all_names_were_looked_through(
    engine: Engine, orders: Orders, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.topics.create(TopicName("public", "default", "payments"), TopicSettings())
    monkeypatch.setattr(finding, "LOOK_THROUGH", 1)
    text = viewer.get("/search", {"q": "zzz"}).content.decode()
    assert "were looked through" in text


def test_what_is_not_found_stands_in_the_box(orders: Orders, viewer: Client) -> None:
    for address, text in (
        ("/transactions/3:999999", "3:999999"),
        ("/topics/public/default/none", "public/default/none"),
    ):
        answer = viewer.get(address)
        assert answer.status_code == 404
        assert f'value="{text}"' in answer.content.decode()

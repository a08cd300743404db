"""The list of transactions and one transaction's page."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from engine import Engine
from engine.model.txn_id import TxnID
from tests.console.conftest import TOPIC, Orders, begin
from txnconsole.console.views import transactions as view


def listed(client: Client, query: str) -> list[str]:
    """The ids in the rows of a page of the list."""
    text = client.get(f"/transactions?{query}").content.decode()
    return [part.split('"')[0] for part in text.split('data-txn="')[1:]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["open", "aborted", "committed"]),
        ("sort=oldest", ["committed", "aborted", "open"]),
        ("status=OPEN", ["open"]),
        ("status=COMMITTED&status=ABORTED", ["aborted", "committed"]),
        ("client=pod-7", ["open"]),
        ("owner=bob", []),
        ("coordinator=3&status=ABORTED", ["aborted"]),
        ("coordinator=0", []),
        (f"topic={TOPIC}&status=OPEN", ["open"]),
        ("older=1h", []),
        ("overdue=yes", []),
        ("q=state:open+client:pod-7", ["open"]),
        ("q=sub:billing", ["open"]),
        ("q=pending:yes", ["open"]),
        ("q=timedout:yes", []),
        ("q=alice&status=aborted", ["aborted"]),
        ("q=3:0+3:2", ["committed", "open"]),
    ],
)
def test_the_filter_of_the_address_holds(
    orders: Orders, viewer: Client, query: str, expected: list[str]
) -> None:
    assert listed(viewer, query) == [str(getattr(orders, name)) for name in expected]


@pytest.mark.parametrize("query", ["older=soon", "topic=x", "coordinator=-1", "q=stat:open"])
def test_a_query_that_means_nothing_is_400_and_says_what_to_write(
    orders: Orders, viewer: Client, query: str
) -> None:
    answer = viewer.get(f"/transactions?{query}")
    assert answer.status_code == 400
    text = answer.content.decode()
    assert 'aria-invalid="true"' in text
    assert "The query cannot be answered" in text


def test_a_cursor_of_another_list_is_400(orders: Orders, viewer: Client) -> None:
    assert viewer.get("/transactions?cursor=!!").status_code == 400


def test_pages_follow_each_other_without_gap_or_repetition(
    engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "PAGE_ROWS", 2)
    ids = [str(begin(engine)) for _ in range(5)]
    seen: list[str] = []
    address = "/transactions?status=OPEN"
    while address:
        text = viewer.get(address).content.decode()
        seen += [part.split('"')[0] for part in text.split('data-txn="')[1:]]
        following = text.partition('rel="next" href="')[2].partition('"')[0]
        address = f"/transactions{following}".replace("&amp;", "&") if following else ""
    assert seen == ids[::-1]


def test_of_what_is_opened_later_only_a_list_of_all_tells_the_number(
    orders: Orders, viewer: Client
) -> None:
    """What is counted is all that is opened, whether it matches a query or not."""
    told = "Others have been opened since this page was read; look for matches"
    for query in ("q=owner:nobody", "status=OPEN"):
        narrowed = viewer.get(f"/transactions?{query}").content.decode()
        assert told in narrowed
        assert "data-newer" not in narrowed
    whole = viewer.get("/transactions").content.decode()
    assert "<b data-newer></b> opened since this page was read; show" in whole
    assert told not in whole


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("query", "column", "direction", "other"),
    [
        ("", "Opened (UTC) ↓", "descending", "?sort=oldest"),
        ("sort=oldest", "Opened (UTC) ↑", "ascending", "?"),
        ("sort=overdue", "Time left ↑", "ascending", "?sort=overdue"),
        ("status=OPEN", "Opened (UTC) ↓", "descending", "?q=state:OPEN&amp;sort=oldest"),
    ],
)
def test_the_mark_of_the_order_is_on_the_column_that_is_in_order(
    viewer: Client, query: str, column: str, direction: str, other: str
) -> None:
    text = viewer.get(f"/transactions?{query}").content.decode()
    [(marked, head)] = re.findall(r'<th scope="col"[^>]* aria-sort="(\w+)">(.*?)</th>', text)
    assert marked == direction
    assert head == f'<a href="{other}">{column}</a>'
    assert '<th scope="col" class="right">Age / took</th>' in text


def test_rows_are_read_again_by_id_and_unknown_ids_are_left_out(
    orders: Orders, viewer: Client
) -> None:
    answer = viewer.get(f"/transactions/rows?id={orders.open}&id=3:999&id={orders.committed}")
    text = answer.content.decode()
    assert f'data-txn="{orders.open}"' in text
    assert f'data-txn="{orders.committed}"' in text
    assert text.count("<tr") == 2
    assert text.count("data-moving") == 1


def test_a_transaction_shows_offsets_before_it_ends(orders: Orders, viewer: Client) -> None:
    text = viewer.get(f"/transactions/{orders.open}").content.decode()
    assert 'data-channel="txn:' in text
    assert "?at=5" in text
    assert "readers go on from 4 to 7" in text
    assert "ADD_PARTITION" in text
    assert f"/subscriptions/{TOPIC}/billing" in text


def test_a_transaction_that_has_ended_listens_to_nothing(orders: Orders, viewer: Client) -> None:
    text = viewer.get(f"/transactions/{orders.aborted}").content.decode()
    assert "data-channel" not in text
    assert "Abort…" not in text


@pytest.mark.parametrize("form", ["{0}", "({0.most_bits},{0.least_bits})", "hex"])
def test_the_search_box_takes_every_form_of_an_id(
    orders: Orders, viewer: Client, form: str
) -> None:
    txn_id: TxnID = orders.open
    text = form.format(txn_id) if form != "hex" else f"{txn_id.most_bits:016x}{txn_id.least_bits:016x}"  # fmt: skip  # noqa: E501
    answer = viewer.get("/search", {"q": text})
    assert answer["Location"] == f"/transactions/{txn_id}"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (str(TOPIC), f"/topics/{TOPIC}"),
        (f"{TOPIC}:1", f"/topics/{TOPIC}/partitions/1/log"),
        ("bill", f"/subscriptions/{TOPIC}/billing"),
    ],
)
def test_the_search_box_finds_topics_partitions_and_subscriptions(
    orders: Orders, viewer: Client, text: str, address: str
) -> None:
    assert viewer.get("/search", {"q": text})["Location"] == address

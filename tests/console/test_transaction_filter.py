from __future__ import annotations

import pytest
from django.http import QueryDict

from engine.model.transaction import TransactionFilter, TransactionOrder
from engine.model.txn_status import TxnStatus
from txnconsole.console.transaction_filter import TransactionFilterForm


def form(query: str) -> TransactionFilterForm:
    return TransactionFilterForm(QueryDict(query))


def test_an_empty_address_matches_everything_newest_first() -> None:
    empty = form("")
    assert empty.is_valid()
    assert empty.filter() == TransactionFilter()
    assert empty.order() is TransactionOrder.NEWEST


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90", 90_000),
        ("90s", 90_000),
        ("5m", 300_000),
        ("2H", 7_200_000),
        ("1d", 86_400_000),
        ("7ms", 7),
    ],
)
def test_ages_have_units(text: str, ms: int) -> None:
    aged = form(f"older={text}")
    assert aged.is_valid()
    assert aged.filter().min_age_ms == ms


def test_every_field_reaches_the_engine() -> None:
    full = form("status=OPEN&coordinator=2&owner=a&client=b&topic=a/b/c&overdue=on&sort=overdue")
    assert full.is_valid()
    assert full.filter() == TransactionFilter(
        statuses=(TxnStatus.OPEN,), tc_id=2, owner="a", client="b", topic="a/b/c", overdue=True
    )
    assert full.order() is TransactionOrder.OVERDUE


@pytest.mark.parametrize("query", ["older=x", "older=1y", "topic=flights", "sort=random"])
def test_what_cannot_be_read_is_an_error_of_its_field(query: str) -> None:
    wrong = form(query)
    assert not wrong.is_valid()
    assert list(wrong.errors) == [query.partition("=")[0]]

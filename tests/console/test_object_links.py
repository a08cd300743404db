"""How pages write objects, and what a reader may write instead."""

from __future__ import annotations

import pytest

from txnconsole.console.object_links import object_named, written


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ("transaction:3:42", "3:42"),
        ("partition:public/default/flights:2", "public/default/flights:2"),
        ("partition:public/default/flights:2/_txnlog", "public/default/flights:2/_txnlog"),
        ("topic:public/default/flights", "public/default/flights"),
        ("subscription:public/default/flights/reader", "public/default/flights/reader"),
        ("coordinator:3", "coordinator 3"),
        ("user:ann", "user:ann"),
        ("coordinators", "coordinators"),
    ],
)
def test_an_object_that_is_copied_from_a_page_is_found_again(kept: str, shown: str) -> None:
    assert written(kept) == shown
    assert object_named(shown) == kept
    assert object_named(kept) == kept


def test_a_transaction_is_named_in_any_form_of_its_id() -> None:
    assert object_named(" (844424930131968,42) ") == "transaction:3:42"

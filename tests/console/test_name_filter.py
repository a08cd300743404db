"""A part of a name, as a reader types it."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from txnconsole.console.name_filter import NameFilter


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", ""),
        (" Flights ", "flights"),
        ("partition:public/default/flights:2", "public/default/flights:2"),
        ("persistent://public/default/flights", "public/default/flights"),
        ("coordinator 3", "coordinator:3"),
        ("topics", "topics"),
    ],
)
def test_a_part_of_a_name_may_be_written_as_names_are_elsewhere(text: str, part: str) -> None:
    found = NameFilter.of(RequestFactory().get("/topics", {"q": text}))
    assert (found.text, found.part) == (text.strip(), part)

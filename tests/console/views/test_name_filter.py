"""Lists that are narrowed by a part of names."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from engine import Engine
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import SubscriptionName, TopicName
from tests.console.conftest import words

pytestmark = pytest.mark.deep

#: A list, and the beginning of the ids of its rows.
LISTS = {
    "topics": "topic-",
    "subscriptions": "sub-",
    "snapshots": "snap-",
    "invariants": "check-",
}
lists = pytest.mark.parametrize("name", LISTS)


@pytest.fixture
def named(engine: Engine) -> None:
    """Two topics with a subscription each."""
    for topic in ("Arrivals", "departures"):
        name = TopicName("public", "default", topic)
        engine.topics.create(name, TopicSettings(partitions=2))
        engine.subscriptions.create(SubscriptionName(name, "reader"), SubscriptionSettings())
    engine.inspect.check_invariants()


def rows(text: str, name: str) -> list[str]:
    """The ids of a list's rows, without the place where the kind of row is named."""
    return re.findall(rf'<tr id="{LISTS[name]}([^"]+)"', text)


@lists
def test_a_list_can_be_of_what_has_a_text_in_its_name(
    named: None, viewer: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"txnconsole.console.views.{name}.PAGE_ROWS", 500)
    everything = rows(viewer.get(f"/{name}").content.decode(), name)
    found = rows(viewer.get(f"/{name}?q=arrival").content.decode(), name)
    assert found
    assert found == [row for row in everything if "Arrivals" in row]
    assert len(found) < len(everything)


@lists
def test_a_narrowed_list_stays_so_on_its_next_page_and_when_it_is_read_again(
    named: None, viewer: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"txnconsole.console.views.{name}.PAGE_ROWS", 1)
    first = viewer.get(f"/{name}?q=public").content.decode()
    assert f'hx-get="/{name}?q=public"' in first
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    address = f"/{name}{unescape(following[1])}"
    assert "q=public" in address
    second = viewer.get(address).content.decode()
    assert len(rows(second, name)) == 1
    assert rows(second, name) != rows(first, name)
    assert 'href="?q=public">First page' in second


@lists
def test_a_list_in_which_nothing_matches_says_why_and_how_to_see_it_whole(
    named: None, viewer: Client, name: str
) -> None:
    answer = viewer.get(f"/{name}?q=nowhere").content.decode()
    assert rows(answer, name) == []
    assert re.search(r"<b>No [a-z]+ matches</b>", answer)
    assert 'None has <span class="mono">nowhere</span> in' in answer
    assert re.search(r'href="\?">Clear filter</a></p></div>', answer)
    assert "yet" not in words(viewer, f"/{name}?q=nowhere").partition("matches")[2][:60]


@lists
def test_the_form_shows_what_was_typed_and_needs_no_script(
    named: None, viewer: Client, name: str
) -> None:
    answer = viewer.get(f"/{name}", {"q": '"<Arr'}).content.decode()
    form = re.search(r'<form class="filters wide" method="get".*?</form>', answer, re.S)
    assert form is not None
    assert 'value="&quot;&lt;Arr"' in form[0]
    assert "action" not in form[0]


@pytest.mark.parametrize(("name", "kept"), [("topics", "system"), ("invariants", "broken")])
def test_filtering_leaves_the_other_choice_of_the_list_as_it_is(
    named: None, operator: Client, name: str, kept: str
) -> None:
    whole = operator.get(f"/{name}?q=arr").content.decode()
    assert f'href="?q=arr&amp;{kept}=1"' in whole
    narrowed = operator.get(f"/{name}?q=arr&{kept}=1").content.decode()
    assert f'<input type="hidden" name="{kept}" value="1">' in narrowed
    assert f'href="?{kept}=1">Clear filter' in narrowed


def test_no_command_line_claims_to_ask_what_a_filter_asks(named: None, viewer: Client) -> None:
    """The REST API cannot filter by a part of a name."""
    for name in ("topics", "invariants"):
        assert "Ask this from a shell" in viewer.get(f"/{name}").content.decode()
        assert "Ask this from a shell" not in viewer.get(f"/{name}?q=arr").content.decode()

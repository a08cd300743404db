"""Views beside the list: everybody's with their counts, and one's own."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from engine import Engine
from engine.model.errors import InvalidRequest
from tests.console.conftest import Orders, begin
from tests.support.together import meet
from txnconsole.saved_views import keeping
from txnconsole.saved_views.models import SavedView

VIEWS = "/transactions/views"
HX = {"HX-Request": "true"}


def keep(client: Client, name: str, query: str = "state:open", sort: str = "newest") -> int:
    answer = client.post(f"{VIEWS}/keep", {"name": name, "q": query, "sort": sort}, headers=HX)
    return answer.status_code


def test_views_come_with_counts(orders: Orders, viewer: Client, engine: Engine) -> None:
    begin(engine)
    text = viewer.get(f"{VIEWS}?q=overdue:yes&sort=oldest", headers=HX).content.decode()
    assert (
        'href="/transactions?q=state:open">Open <span class="n num" data-figure="open">2</span>'
        in text
    )
    assert 'aria-current="true">Overdue' in text
    assert 'Holding acks <span class="n num">1</span>' in text


def test_a_view_is_kept_replaced_and_forgotten(orders: Orders, viewer: Client) -> None:
    assert keep(viewer, "  my   batch ", "owner:alice", "oldest") == 200
    assert keep(viewer, "my batch", "owner:bob") == 200
    view = SavedView.objects.get()
    assert (view.name, view.query, view.sort) == ("my batch", "owner:bob", "")
    assert "my batch" in viewer.get(VIEWS).content.decode()
    answer = viewer.post(f"{VIEWS}/{view.pk}/forget", {"q": ""}, headers=HX)
    assert "my batch" not in answer.content.decode()
    assert viewer.post(f"{VIEWS}/{view.pk}/forget", headers=HX).status_code == 422


def test_a_view_is_its_users_alone(orders: Orders, viewer: Client, operator: Client) -> None:
    keep(viewer, "mine")
    view = SavedView.objects.get()
    assert "mine" not in operator.get(VIEWS, headers=HX).content.decode()
    assert operator.post(f"{VIEWS}/{view.pk}/forget", headers=HX).status_code == 422
    assert SavedView.objects.exists()


def test_what_cannot_be_kept_says_why(engine: Engine, viewer: Client) -> None:
    assert keep(viewer, "") == 422
    assert keep(viewer, "x" * 61) == 422
    assert keep(viewer, "odd", "stat:open") == 422
    for number in range(keeping.MAX_VIEWS):
        assert keep(viewer, f"view {number}") == 200
    assert keep(viewer, "view 0") == 200
    assert keep(viewer, "one more") == 422
    assert SavedView.objects.count() == keeping.MAX_VIEWS


def test_without_a_script_the_list_comes_back(engine: Engine, viewer: Client) -> None:
    answer = viewer.post(f"{VIEWS}/keep", {"name": "open", "q": "state:open", "sort": ""})
    assert answer["Location"] == "/transactions?q=state:open"
    assert viewer.get(VIEWS).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_two_views_kept_at_once_are_no_more_than_there_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "MAX_VIEWS", 1)
    user = User.objects.create(username="ann")
    refused: list[str] = []

    def keep_one(name: str) -> None:
        try:
            keeping.keep(user.pk, name, "", "")
        except InvalidRequest:
            refused.append(name)

    beside = meet(monkeypatch, SavedView.objects, "update_or_create", lambda: keep_one("other"))
    keep_one("one")
    beside.join(60)
    assert refused == ["other"]
    assert [view.name for view in SavedView.objects.all()] == ["one"]

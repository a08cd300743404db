"""Signing in with a password, and how often it may be guessed."""

from __future__ import annotations

from datetime import timedelta
from threading import BoundedSemaphore
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.http import HttpResponse
from django.test import Client

from txnconsole.access import sign_ins
from txnconsole.access.models import SignInAttempts
from txnconsole.console.views import session

_PASSWORD = "correct horse staple"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def ann() -> User:
    return User.objects.create_user("ann", password=_PASSWORD)


def sign_in(name: str = "ann", password: str = _PASSWORD, **headers: Any) -> HttpResponse:
    answer: Any = Client().post("/login", {"username": name, "password": password}, **headers)
    return answer


def test_a_password_is_guessed_so_often_and_then_not_even_looked_at() -> None:
    guesses = [sign_in(password=f"guess {number}") for number in range(sign_ins.FOR_ONE_NAME + 2)]
    assert [answer.status_code for answer in guesses] == [200] * sign_ins.FOR_ONE_NAME + [429] * 2
    assert 0 < int(guesses[-1]["Retry-After"]) <= sign_ins.WINDOW.total_seconds()
    refused = sign_in()
    assert refused.status_code == 429
    assert "Too many attempts" in refused.content.decode()
    assert sign_in(REMOTE_ADDR="192.0.2.7").status_code == 302, "nobody locks another out"
    SignInAttempts.objects.update(since=F("since") - sign_ins.WINDOW)
    assert sign_in().status_code == 302


def test_a_name_that_nobody_has_is_refused_in_the_same_way() -> None:
    statuses = [sign_in("nobody").status_code for _ in range(sign_ins.FOR_ONE_NAME + 1)]
    assert statuses == [200] * sign_ins.FOR_ONE_NAME + [429]


def test_who_has_a_whole_network_of_addresses_guesses_no_more() -> None:
    statuses = [
        sign_in(password="guess", REMOTE_ADDR=f"2001:db8::{number:x}").status_code
        for number in range(sign_ins.FOR_ONE_NAME + 1)
    ]
    assert statuses == [200] * sign_ins.FOR_ONE_NAME + [429]
    assert sign_in(REMOTE_ADDR="2001:db8:0:1::1").status_code == 302


def test_who_signs_in_as_a_window_ends_may_not_try_more_often_in_the_next() -> None:
    for _ in range(3):
        assert sign_ins.begin("ann", "192.0.2.7") is None
    SignInAttempts.objects.update(since=F("since") - sign_ins.WINDOW)
    assert sign_ins.begin("bob", "192.0.2.7") is None
    for _ in range(3):
        sign_ins.succeeded("ann", "192.0.2.7")
    assert min(SignInAttempts.objects.values_list("attempts", flat=True)) >= 0


def test_who_tries_many_names_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_ins, "FROM_ONE_SENDER", 3)
    statuses = [sign_in(f"name-{number}").status_code for number in range(5)]
    assert statuses == [200, 200, 200, 429, 429]


def test_whoever_knows_the_password_signs_in_as_often_as_they_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sign_ins, "FOR_ONE_NAME", 2)
    monkeypatch.setattr(sign_ins, "FROM_ONE_SENDER", 4)
    for _ in range(3):
        assert sign_in(password="mistyped").status_code == 200
        assert sign_in().status_code == 302


def test_neither_names_nor_addresses_are_kept() -> None:
    sign_in("hunter2")
    kept = str(list(SignInAttempts.objects.values()))
    assert "hunter2" not in kept
    assert "127.0.0.1" not in kept


def test_so_many_passwords_are_checked_at_a_time_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever comes of one, the next has its turn. Of one sender only so many wait for one."""
    turns = BoundedSemaphore(1)
    monkeypatch.setattr(session, "_turns", turns)
    monkeypatch.setattr(session, "PATIENCE", timedelta())
    for password in ("wrong", _PASSWORD, "wrong"):
        assert sign_in(password=password).status_code in (200, 302)
    with turns:
        refused = [sign_in("bob") for _ in range(sign_ins.FOR_ONE_NAME + 1)]
    assert {answer.status_code for answer in refused} == {429}
    assert "Retry-After" in refused[0]
    waited = [b"Many are signing in" in answer.content for answer in refused]
    assert waited == [True] * sign_ins.FOR_ONE_NAME + [False]
    assert sign_in().status_code == 302


@pytest.mark.django_db(transaction=True)
def test_whoever_waits_to_have_a_password_checked_holds_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if it took one, to see whether it is signed in already: programs need them."""
    held = []

    class Turns:
        def acquire(self, timeout: float) -> bool:
            held.append(connection.connection)
            return False

    monkeypatch.setattr(session, "_turns", Turns())
    browser = Client()
    browser.cookies["sessionid"] = "0123456789abcdef0123456789abcdef"
    answer = browser.post("/login", {"username": "ann", "password": _PASSWORD})
    assert (answer.status_code, held) == (429, [None])


def test_what_is_over_is_forgotten() -> None:
    sign_in("first")
    SignInAttempts.objects.update(since=F("since") - sign_ins.WINDOW)
    sign_in("second")
    assert SignInAttempts.objects.count() == 2


def test_the_address_to_go_on_to_is_ours() -> None:
    for elsewhere in ("https://evil.example/", "//evil.example/", r"\\evil.example"):
        answer: Any = Client().post(
            "/login", {"username": "ann", "password": _PASSWORD, "next": elsewhere}
        )
        assert answer["Location"] == "/"


def test_a_form_that_came_too_late_leads_back_to_its_page_and_says_so(ann: User) -> None:
    client = Client()
    answer = client.post(
        "/pipeline/7/repeat", headers={"referer": "http://testserver/pipeline/7?x=1"}
    )
    assert answer.status_code == 302
    card = client.get(answer["Location"])
    assert "was not done" in card.content.decode()
    signed_in = client.post(
        answer["Location"],
        {"username": "ann", "password": _PASSWORD, "next": card.context["next"]},
    )
    # There the form is filled in as it was (static/js/unsent.js).
    assert signed_in["Location"] == "/pipeline/7?x=1#unsent"


def test_a_form_of_another_sites_page_leads_to_the_overview(ann: User) -> None:
    answer = Client().post("/pipeline/7/repeat", headers={"referer": "http://elsewhere/pipeline/7"})
    assert answer["Location"] == "/login?unsent=1&next=/%23unsent"


def test_who_comes_to_a_page_is_told_of_nothing_that_was_not_done(ann: User) -> None:
    answer = Client().get("/pipeline/7", follow=True)
    assert "was not done" not in answer.content.decode()


def test_who_is_signed_in_stays_so_while_the_secret_is_changed(settings: Any) -> None:
    signed_in = sign_in().cookies[settings.SESSION_COOKIE_NAME].value

    def is_known() -> bool:
        """Whether a page that has come with this session may ask, as all its questions name it."""
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = signed_in
        return client.get("/").status_code != 302

    earlier, settings.SECRET_KEY = settings.SECRET_KEY, "the next"
    assert not is_known()
    settings.SECRET_KEY_FALLBACKS = [earlier]
    assert [is_known(), is_known()] == [True, True]
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = earlier, ["the next"]
    assert is_known(), "to a process that is not started again yet"
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the next", [earlier]
    assert is_known()
    settings.SECRET_KEY_FALLBACKS = []
    assert is_known()


def test_what_was_known_of_a_session_before_a_sign_in_leads_nowhere(settings: Any) -> None:
    client = Client()
    client.session.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = planted = client.session.session_key
    client.post("/login", {"username": "ann", "password": _PASSWORD})
    assert client.cookies[settings.SESSION_COOKIE_NAME].value != planted

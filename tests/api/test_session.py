"""The console's session at the API: the same rights, and a CSRF token for every change."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from engine import Engine

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(engine: Engine) -> Client:
    user = User.objects.create(username="ann")
    user.groups.add(Group.objects.get_or_create(name="admin")[0])
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    return client


def _open(browser: Client, **headers: str) -> int:
    return browser.post(
        "/api/v1/transactions", "{}", content_type="application/json", headers=headers
    ).status_code


def test_a_session_reads_with_the_roles_of_its_groups(browser: Client) -> None:
    assert browser.get("/api/v1/audit").status_code == 200
    User.objects.get(username="ann").groups.clear()
    assert browser.get("/api/v1/audit").status_code == 403


def test_a_change_needs_the_csrf_token(browser: Client) -> None:
    assert _open(browser) == 403
    browser.cookies["csrftoken"] = "x" * 32
    assert _open(browser, **{"X-CSRFToken": "y" * 32}) == 403
    assert _open(browser, **{"X-CSRFToken": "x" * 32}) == 201


def test_a_form_of_another_site_cannot_make_a_change(browser: Client) -> None:
    browser.cookies["csrftoken"] = "x" * 32
    answer = browser.post(
        "/api/v1/transactions",
        json.dumps({"csrfmiddlewaretoken": "x" * 32}),
        content_type="text/plain",
        headers={"Origin": "https://evil.example"},
    )
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "rest", ['Content-Disposition: form-data; name="a"\r\n\r\nb\r\n--X--', "x"]
)
def test_a_form_is_no_body_of_a_call(browser: Client, rest: str) -> None:
    """Django reads a form for its CSRF token, before anybody asks what the body is."""
    browser.cookies["csrftoken"] = "x" * 32
    answer = browser.post(
        "/api/v1/transactions",
        f"--X\r\n{rest}\r\n",
        content_type="multipart/form-data; boundary=X",
        headers={"X-CSRFToken": "x" * 32},
    )
    assert (answer.status_code, answer.json()["code"]) == (415, "UnsupportedMediaType")


def test_a_bad_token_is_not_made_good_by_a_session(browser: Client) -> None:
    answer = browser.get("/api/v1/topics", headers={"Authorization": "Bearer nonsense"})
    assert answer.status_code == 401


def test_a_disabled_users_session_is_nobody(browser: Client) -> None:
    User.objects.filter(username="ann").update(is_active=False)
    assert browser.get("/api/v1/topics").status_code == 401


def test_who_shows_a_token_may_browse_the_contract_too(browser: Client) -> None:
    """The one page among the addresses of programs: made without what a session brings."""
    answer = browser.get("/api/v1/docs", headers={"Authorization": "Bearer unknown"})
    assert answer.status_code == 200


def test_a_token_that_is_refused_is_not_made_up_for_by_a_session(browser: Client) -> None:
    answer = browser.get("/api/v1/audit", headers={"Authorization": "Bearer unknown"})
    assert answer.status_code == 401

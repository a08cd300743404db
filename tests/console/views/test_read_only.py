"""A console in which nobody changes anything, whatever their role."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from engine import Engine
from tests.console.conftest import Orders, signed_in


@pytest.fixture
def admin(db: None, settings: Settings) -> Client:
    """An administrator while the console is read-only."""
    settings.READ_ONLY = True
    return signed_in("admin")


def test_an_administrator_reads_everything_and_is_told_why_no_more(
    orders: Orders, admin: Client
) -> None:
    page = admin.get(f"/transactions/{orders.open}")
    assert page.status_code == 200
    text = page.content.decode()
    assert "The console is read-only." in text
    assert 'needs <span class="mono">transaction.abort_any</span>' in text
    assert admin.get("/audit").status_code == 200
    assert "card 4111" in admin.get(f"{orders.log}/entries/5").content.decode()


def test_what_an_administrator_may_change_is_refused(
    orders: Orders, admin: Client, engine: Engine
) -> None:
    reason = {"reason": "left hanging by a dead producer"}
    refused = admin.post(f"/transactions/{orders.open}/abort", reason)
    assert refused.status_code == 403
    assert "while the console is read-only" in refused.content.decode()
    assert engine.coordinator.get(orders.open).status == "OPEN"
    for address in ("/coordinators/scale", "/topics/new", "/settings/tokens", "/alerts/rules/new"):
        assert admin.post(address, reason).status_code == 403, address


def test_its_session_changes_nothing_over_rest_either(orders: Orders, admin: Client) -> None:
    address = f"/api/v1/transactions/{orders.open}"
    assert admin.get(address).status_code == 200
    answer = admin.post(f"{address}/abort", {"reason": "x"}, content_type="application/json")
    assert answer.status_code == 403
    assert "While the console is read-only" in answer.json()["detail"]


def test_the_environment_stands_at_the_top(
    engine: Engine, viewer: Client, settings: Settings
) -> None:
    settings.ENVIRONMENT_NAME = "production"
    text = viewer.get("/topics").content.decode()
    assert '<span class="environment">production</span>' in text
    assert "read-only" not in text

"""The overview's charts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.console.browser.conftest import Watched

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("oldest_ms", "timeout_ms", "unit"),
    [(5_000, 60_000, "s"), (175 * 60_000, 600_000, "min"), (26 * 3_600_000, 600_000, "h")],
)
def test_the_axis_of_ages_has_the_unit_of_what_it_shows(
    watched: Watched, oldest_ms: int, timeout_ms: int, unit: str
) -> None:
    """The default timeout is on it too."""

    def with_an_old_one(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        found["oldest"] = [oldest_ms] * len(found["at"])
        found["timeout"] = timeout_ms
        route.fulfill(response=answer, json=found)

    page = watched.page
    page.route("**/trends?*", with_an_old_one)
    page.goto("/")
    page.locator("#oldest").scroll_into_view_if_needed()
    highest = page.locator("#oldest .ytick text").last
    expect(highest).to_have_text(re.compile(rf"\d {unit}$"))

"""The charts of what the job ``metrics`` has computed, over figures as it stores them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.browser.accessibility import axe
from tests.console.browser.conftest import Watched
from tests.console.browser.screens import picture

pytestmark = [pytest.mark.browser, pytest.mark.timeout(480), pytest.mark.usefixtures("figures")]


@pytest.mark.parametrize("options", [{"color_scheme": each} for each in ("light", "dark")])
def test_the_figures_are_drawn_told_and_tabulated(
    watched: Watched, options: dict[str, Any]
) -> None:
    """By topic and by owner, wide and narrow; nothing is cut, and nothing complained of."""
    page, scheme = watched.page, options["color_scheme"]
    for by, charts in (("topic", 3), ("owner", 3)):
        page.set_viewport_size({"width": 1440, "height": 1000})
        page.goto(f"/pipeline/figures?by={by}&per=hour")
        expect(page.locator("#charts .main-svg:first-child")).to_have_count(charts)
        picture(page, f"figures-{by}-{scheme}")
        assert axe(page) == []
        page.set_viewport_size({"width": 320, "height": 800})
        page.reload()
        expect(page.locator("#charts .main-svg:first-child")).to_have_count(charts)
        picture(page, f"figures-{by}-{scheme}-narrow")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_chart_s_values_are_words_and_a_table_too(watched: Watched) -> None:
    page = watched.page
    page.goto("/pipeline/figures?by=topic&per=hour&name=x/y/rare")
    chart = page.get_by_role("img", name="Messages")
    expect(chart).to_have_accessible_description(re.compile(r"^Newest: Messages [\d,]+\.$"))
    panel = page.locator("section.figure").first
    panel.get_by_text("Show as table").click()
    rows = panel.locator("tbody tr")
    expect(rows.first).to_contain_text("2026-11-21 04:00")
    # Hours in which it wrote nothing are there, and wrote nothing.
    expect(rows).to_have_count(29)
    expect(rows.nth(1).locator("td").last).to_have_text("0")


def test_time_that_readers_were_held_back_has_a_unit_and_what_is_not_known_says_so(
    watched: Watched,
) -> None:
    page = watched.page
    page.goto("/pipeline/figures?by=owner&per=hour")
    expect(page.locator("#amount .ytick").last).to_contain_text(re.compile(r"^\d+ min$"))
    for name in ("begin_commit", "commit_visible"):
        expect(page.locator(f"#{name} .annotation")).to_have_text("Nothing was measured.")
    dates = page.locator("#amount .xtick").all_text_contents()
    assert len(dates) == len(set(dates)) > 1

"""The charts of what the job ``metrics`` has computed, over figures as it stores them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.conftest import Watched
from tests.console.browser.test_budgets import SCREENS, axe

pytestmark = [pytest.mark.browser, pytest.mark.timeout(480), pytest.mark.usefixtures("figures")]

_AXE = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}


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
        assert axe(page, _AXE) == []
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


def picture(page: Page, name: str) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"{name}.png", full_page=True)

"""A system that forces its own colours, as Windows' contrast themes do.

The console keeps few of its own then, and no shadows are drawn. What marks a current page is looked
at with all pages, in test_budgets.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import Producer, Watched

pytestmark = pytest.mark.browser

#: What the console's own ink is where it is kept, as in charts.
_INK = """
() => {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.forcedColorAdjust = "none";
  probe.style.color = "var(--ink)";
  return getComputedStyle(probe).color;
}
"""
_EDGE = "(one) => getComputedStyle(one).borderTopWidth + getComputedStyle(one).borderTopStyle"


@pytest.mark.parametrize(
    "options", [{"forced_colors": "active", "color_scheme": "dark"}], ids=["dark"]
)
def test_a_theme_that_was_chosen_yields_to_the_systems(watched: Watched) -> None:
    page = watched.page
    page.goto("/coordinators")
    as_the_system = page.evaluate(_INK)
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    assert page.evaluate(_INK) == as_the_system == "rgb(232, 236, 242)"


@pytest.mark.parametrize("options", [{"forced_colors": "active"}], ids=["light"])
def test_what_lies_above_a_page_has_an_edge(watched: Watched, producer: Producer) -> None:
    page = watched.page
    page.goto("/transactions")
    page.keyboard.press("/")
    page.keyboard.type(producer.topic.split("/")[-1])
    expect(page.locator("#finds [role=option]")).to_have_count(1)
    assert page.locator("#finds").evaluate(_EDGE) == "1pxsolid"
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    assert page.get_by_role("dialog", name="Commands").evaluate(_EDGE) == "1pxsolid"
    page.keyboard.press("Escape")
    query = page.locator("#query")
    query.fill("sta")
    expect(page.locator("#query-options [role=option]").first).to_be_visible()
    assert page.locator("#query-options").evaluate(_EDGE) == "1pxsolid"

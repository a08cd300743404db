"""Browsers that lack something that the console uses; the newest plays them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import Watched

pytestmark = pytest.mark.browser

#: Safari before 17.5.
_WITHOUT_LIGHT_DARK = "CSS.supports = (_, value) => !value.startsWith('light-dark(')"
#: One that does not know the reader's zone (which is UTC here).
_WITHOUT_ZONE = """
Intl.DateTimeFormat = new Proxy(Intl.DateTimeFormat, {
  apply(format, _, [locale, options]) { return this.construct(format, [locale, options]); },
  construct(format, [locale, options]) {
    if (options?.timeZone === "UTC") throw new RangeError("Invalid time zone specified: UTC");
    return new format(locale, options);
  },
});
"""
_OWN = "(name) => document.documentElement.style.getPropertyValue(name)"


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}], ids=["dark"])
def test_without_light_dark_colours_are_those_of_the_theme(watched: Watched) -> None:
    page = watched.page
    page.add_init_script(_WITHOUT_LIGHT_DARK)
    page.goto("/coordinators")
    page.wait_for_function(f"({_OWN})('--bg') === '#0d1015'")
    assert "0 12px 32px rgb(0 0 0 / 0.6)" in page.evaluate(_OWN, "--shadow")
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    page.evaluate("document.dispatchEvent(new Event('theme'))")
    assert page.evaluate(_OWN, "--bg") == "#f6f7f9"
    assert "0 12px 32px rgb(16 24 40 / 0.18)" in page.evaluate(_OWN, "--shadow")
    left = "[...document.documentElement.style].map((name) => " + _OWN + "(name)).join()"
    assert "light-dark" not in page.evaluate(left.replace(_OWN, f"({_OWN})"))


def test_in_a_zone_that_is_younger_than_the_browser_pages_are_live_all_the_same(
    watched: Watched,
) -> None:
    page = watched.page
    page.add_init_script(_WITHOUT_ZONE)
    page.goto("/coordinators")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")

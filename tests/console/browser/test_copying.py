"""Whoever copies something sees whether that worked."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.browser.conftest import Producer, Watched

pytestmark = pytest.mark.browser

#: A clipboard, and whether what is selected can be copied by hand.
_CLIPBOARD = """
window.copied = [];
const taken = { writeText: async (text) => { copied.push(text); } };
Object.defineProperty(navigator, "clipboard", { value: %s, configurable: true });
document.execCommand = () => %s && Boolean(copied.push(document.activeElement.value));
"""
_TOLD = "one => getComputedStyle(one, '::after').content"
_PLACE = "one => [one.offsetWidth, one.offsetHeight, one.offsetLeft, one.parentElement.offsetTop]"


def shell_line(page: Page) -> Locator:
    page.goto("/topics")
    page.get_by_text("Ask this from a shell").click()
    return page.get_by_role("button", name="Copy curl")


@pytest.mark.parametrize(
    ("clipboard", "by_hand", "told"),
    [
        ("taken", "false", "Copied"),
        ("{ writeText: () => Promise.reject(new Error()) }", "false", "Not copied"),
        ("undefined", "true", "Copied"),
    ],
)
def test_what_came_of_it_stands_over_the_button_for_two_seconds(
    watched: Watched, clipboard: str, by_hand: str, told: str
) -> None:
    page = watched.page
    page.clock.install()
    page.add_init_script(_CLIPBOARD % (clipboard, by_hand))
    button = shell_line(page)
    place = button.evaluate(_PLACE)
    button.click()
    expect(button).to_have_attribute("data-told", told)
    assert button.evaluate(_TOLD) == f'"{told}"'
    assert button.evaluate(_PLACE) == place
    expect(page.locator("#say")).to_have_text(told)
    expect(button).not_to_have_attribute("title", told)
    copied = [button.get_attribute("data-copy")] if told == "Copied" else []
    assert page.evaluate("copied") == copied
    page.clock.fast_forward(2_000)
    expect(button).not_to_have_attribute("data-told", told)


def test_a_menu_that_closes_leaves_the_word_where_it_was_opened(
    watched: Watched, producer: Producer
) -> None:
    """And what is in it can be copied without a clipboard."""
    page = watched.page
    txn_id = producer.begin()
    page.add_init_script(_CLIPBOARD % ("undefined", "true"))
    page.goto(f"/transactions/{txn_id}")
    menu = page.locator("details.menu")
    menu.locator("summary").click()
    menu.get_by_role("button", name="canonical").click()
    expect(menu.locator("summary")).to_have_attribute("data-told", "Copied")
    expect(menu.locator("summary")).to_be_focused()
    assert page.evaluate("copied") == [txn_id]
    producer.end(txn_id, "abort")

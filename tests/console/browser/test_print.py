"""Pages on paper: light colours whatever the theme, and nothing that can be pressed."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.conftest import Producer, Watched

pytestmark = pytest.mark.browser

#: The third ink in the dark theme and in the light one, in which charts write.
DARK_INK, LIGHT_INK = "rgb(143, 155, 172)", "rgb(94, 106, 124)"
_CHOOSE_DARK = """
document.documentElement.dataset.theme = "dark";
document.dispatchEvent(new Event("theme"));
"""
#: By how many pixels something drawn in a chart's box goes on beyond it.
_OVERHANG = """
chart => Math.max(...[...chart.querySelectorAll(".main-svg")].map((svg) =>
  svg.getBoundingClientRect().right - chart.getBoundingClientRect().right))
"""
_DARK = {"color_scheme": "dark"}


def expect_light_paper(page: Page) -> None:
    expect(page.locator("body")).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    expect(page.locator("body")).to_have_css("color", "rgb(19, 25, 34)")
    expect(page.locator(".panel").first).to_have_css("background-color", "rgb(255, 255, 255)")
    for pressed in (".nav", ".top", "[data-live]", ".skip", ".btn:visible", "dialog:visible"):
        expect(page.locator(pressed).first).to_be_hidden()


@pytest.mark.parametrize("options", [{}, _DARK], ids=["chosen", "the system's"])
@pytest.mark.parametrize("address", ["/transactions/{txn}", "/alerts", "/settings/profile"])
def test_a_page_of_the_dark_theme_is_printed_light(
    watched: Watched, producer: Producer, options: dict[str, Any], address: str
) -> None:
    page = watched.page
    page.goto(address.format(txn=producer.begin()))
    if options != _DARK:
        page.evaluate(_CHOOSE_DARK)
    expect(page.locator("body")).to_have_css("background-color", "rgb(13, 16, 21)")
    page.emulate_media(media="print")
    expect_light_paper(page)
    page.emulate_media(media="screen")
    expect(page.locator("body")).to_have_css("background-color", "rgb(13, 16, 21)")


@pytest.mark.parametrize("options", [_DARK | {"viewport": {"width": 1440, "height": 200}}])
def test_charts_are_printed_light_and_within_the_paper_also_those_never_seen(
    watched: Watched, options: dict[str, Any]
) -> None:
    page = watched.page
    page.goto("/")
    expect(page.locator("#oldest-text")).to_contain_text("Newest")
    expect(page.locator(".main-svg")).to_have_count(0)
    page.emulate_media(media="print")
    for name in ("throughput", "oldest"):
        expect(page.locator(f"#{name} .ytick text").first).to_have_css("fill", LIGHT_INK)
    page.evaluate("document.body.style.width = '500px'")  # Paper is no window: nothing is resized.
    for chart in page.locator(".chart:has(.main-svg)").all():
        assert chart.evaluate(_OVERHANG) <= 0
    page.emulate_media(media="screen")
    page.evaluate("document.body.style.width = ''")
    page.locator("#throughput").scroll_into_view_if_needed()
    expect(page.locator("#throughput .ytick text").first).to_have_css("fill", DARK_INK)


def test_a_page_is_printed_without_the_dialog_that_is_open_over_it(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    page.goto(f"/transactions/{producer.begin()}")
    page.locator("#region").get_by_role("button", name="Abort").click()
    dialog = page.locator("#dialog")
    expect(dialog.get_by_label("Reason")).to_be_visible()
    page.emulate_media(media="print")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.emulate_media(media="screen")
    expect(dialog.get_by_label("Reason")).to_be_visible()


def test_what_chooses_a_file_or_a_drawing_is_not_printed(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    producer.produce("hidden", txn_id=(txn_id := producer.begin()))
    pages = {f"/transactions/{txn_id}": "[data-idle]", producer.log: ".exports"}
    for address, choice in pages.items():
        page.emulate_media(media="screen")
        page.goto(address)
        expect(page.locator(choice)).to_be_visible()
        page.emulate_media(media="print")
        expect(page.locator(choice)).to_be_hidden()

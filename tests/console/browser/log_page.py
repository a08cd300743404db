"""The page of a partition's log, as tests find their way on it."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.console.browser.conftest import Producer, Watched


def figure(page: Page, name: str) -> Locator:
    return page.locator(f'[data-figure="{name}"]')


def cell(page: Page, offset: int) -> Locator:
    return page.locator(f'#grid .cell[data-offset="{offset}"]')


def open_log(watched: Watched, producer: Producer) -> Page:
    """Open the page and wait until it is live."""
    watched.page.goto(producer.log)
    expect(watched.page.locator("[data-live]")).to_have_attribute("data-state", "live")
    return watched.page

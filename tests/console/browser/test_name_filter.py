"""A list that is narrowed by a part of a name, with the keyboard, on a page that stays open."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Response, expect

from tests.console.browser.conftest import Producer, Watched

pytestmark = [pytest.mark.browser, pytest.mark.timeout(480)]


def _is_of_the_region(answer: Response) -> bool:
    return "hx-request" in answer.request.headers and "/topics?q=" in answer.url


def test_a_list_is_narrowed_with_the_keyboard_and_stays_so_when_it_is_read_again(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    own = producer.topic
    producer.server.topic()
    rows = page.locator("#region tbody tr")
    page.goto("/topics")
    field = page.get_by_label("Part of a name")
    field.focus()
    page.keyboard.type(own.rpartition("/")[2].upper())
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/topics\?q="))
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(own)
    field.fill("half typed")
    with page.expect_response(_is_of_the_region):
        pass  # It is read again every five seconds.
    expect(rows).to_have_count(1)
    expect(field).to_have_value("half typed")
    page.get_by_role("link", name="Clear filter").click()
    expect(page).to_have_url(re.compile(r"/topics\??$"))
    expect(rows.nth(1)).to_be_visible()

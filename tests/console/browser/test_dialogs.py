"""Dialogs whose content comes late, and what is asked for while it does."""

from __future__ import annotations

from contextlib import suppress

import pytest
from playwright.sync_api import Error, Page, Route, expect

from tests.console.browser.conftest import Producer, Watched, hold

pytestmark = pytest.mark.browser

#: A second opener, as lists have one in each row.
_ANOTHER = """
([first, last]) => {
  const button = document.querySelector(`[hx-get="/transactions/${first}/abort"]`);
  const other = document.createElement("button");
  other.id = "other";
  other.textContent = "Other";
  for (const name of ["hx-target", "hx-swap"]) other.setAttribute(name, button.getAttribute(name));
  other.setAttribute("hx-get", `/transactions/${last}/abort`);
  document.querySelector("h1").after(other);
  htmx.process(other);
}
"""


def answer(page: Page, held: list[Route]) -> None:
    """Let what was held be answered, where the page still waits for it, and looked at."""
    for route in held:
        with suppress(Error):
            route.continue_()
    page.evaluate("fetch('/settings/profile').then(() => new Promise(requestAnimationFrame))")
    page.evaluate("fetch('/settings/profile').then(() => new Promise(requestAnimationFrame))")


def test_of_two_dialogs_the_one_that_was_asked_for_last_is_opened_and_stays(
    watched: Watched, producer: Producer
) -> None:
    first, last = producer.begin(), producer.begin()
    page = watched.page
    page.goto(f"/transactions/{first}")
    page.evaluate(_ANOTHER, [first, last])
    held = hold(page, f"**/transactions/{first}/abort")
    with page.expect_request(f"**/transactions/{first}/abort"):
        page.locator(f'[hx-get="/transactions/{first}/abort"]').click()
    page.locator("#other").click()
    heading, reason = page.locator("#dialog h2"), page.get_by_label("Reason")
    expect(heading).to_have_text(f"Abort transaction {last}?")
    reason.fill("its producer is gone")
    answer(page, held)
    expect(heading).to_have_text(f"Abort transaction {last}?", timeout=1)
    expect(reason).to_have_value("its producer is gone", timeout=1)


def test_who_clicks_twice_keeps_what_they_type_into_the_dialog(
    watched: Watched, producer: Producer
) -> None:
    txn_id = producer.begin()
    page = watched.page
    page.goto(f"/transactions/{txn_id}")
    held = hold(page, f"**/transactions/{txn_id}/abort")
    with page.expect_request(f"**/transactions/{txn_id}/abort"):
        page.locator(f'[hx-get="/transactions/{txn_id}/abort"]').dblclick()
    held.pop().continue_()
    reason = page.get_by_label("Reason")
    reason.fill("its producer is gone")
    answer(page, held)
    expect(reason).to_have_value("its producer is gone", timeout=1)

"""What holds on every page: silence, policy, bytes, no sideways scrolling, a stable layout."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from engine.model.txn_id import TxnID
from tests.console.browser.conftest import Producer, Watched
from tests.server import Served

pytestmark = pytest.mark.browser

#: Bytes over the wire, cold (design/console.md §7).
BUDGET, BUDGET_WITH_CHARTS, BUDGET_DOCUMENT = 150_000, 600_000, 30_000
MAX_ELEMENTS, MAX_ELEMENTS_STRIP = 1_000, 1_500
MAX_SHIFT = 0.02
PAGES = ["/", "/transactions", "/topics", "/subscriptions", "/coordinators", "/audit", "/search"]
_BYTES = """
() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .map((entry) => [entry.name, entry.encodedBodySize])
"""


def addresses(producer: Producer, txn_id: str) -> list[str]:
    topic = f"/topics/{producer.topic}"
    return [*PAGES, topic, producer.log, f"/transactions/{txn_id}", f"/transactions/{txn_id}/abort"]


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"color_scheme": "light"}])
def test_pages_are_silent_and_within_their_budgets(
    watched: Watched, producer: Producer, options: dict[str, Any]
) -> None:
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    for address in addresses(producer, txn_id):
        watched.page.goto(address)
        watched.page.wait_for_load_state("load")
        is_log = address == producer.log
        if is_log:
            expect(watched.page.locator("#spans .main-svg").first).to_be_visible()
        sizes: list[tuple[str, int]] = watched.page.evaluate(_BYTES)
        assert sum(size for _, size in sizes) < (BUDGET_WITH_CHARTS if is_log else BUDGET), address
        assert sizes[0][1] < BUDGET_DOCUMENT, address
        elements = watched.page.evaluate("document.querySelectorAll('*').length")
        assert elements < (MAX_ELEMENTS_STRIP if is_log else MAX_ELEMENTS), address
        assert watched.page.evaluate("window.shift") <= MAX_SHIFT, address
        assert watched.violations() == [], address
        assert watched.complaints == [], address


@pytest.mark.parametrize("options", [{"viewport": {"width": 320, "height": 700}}])
def test_no_page_scrolls_sideways_on_a_narrow_screen(
    watched: Watched, producer: Producer, options: dict[str, Any]
) -> None:
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    for address in addresses(producer, txn_id):
        watched.page.goto(address)
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 320, address


@pytest.mark.parametrize("options", [{"java_script_enabled": False}])
def test_without_a_script_an_operator_can_still_abort(
    context: BrowserContext, producer: Producer, options: dict[str, Any]
) -> None:
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    page = context.new_page()
    page.goto(f"/transactions/{txn_id}")
    page.get_by_role("button", name="Abort").click()
    page.get_by_label("Reason").fill("left hanging by a dead producer")
    page.get_by_role("button", name="Abort transaction").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Transaction {txn_id}")
    expect(page.locator("main")).to_contain_text("operator: left hanging by a dead producer")


def test_the_theme_is_chosen_and_kept(watched: Watched, server: Served) -> None:
    page = watched.page
    page.goto("/")
    button = page.get_by_role("button", name="Theme: system")
    button.click()
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(13, 16, 21)"


def test_keys_lead_to_pages_and_search(watched: Watched, producer: Producer) -> None:
    page = watched.page
    txn_id = TxnID.parse(producer.begin())
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/transactions")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(f"({txn_id.most_bits},{txn_id.least_bits})")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/transactions/{txn_id}")


def test_the_list_of_transactions_changes_in_place_and_lets_new_ones_wait(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    txn_id = producer.begin()
    page.goto(f"/transactions?owner=flights-feed&topic={producer.topic}")
    producer.produce("a", txn_id=txn_id)
    page.reload()
    row = page.locator(f'tr[data-txn="{txn_id}"]')
    expect(row).to_contain_text("Open")
    producer.end(txn_id, "commit")
    expect(row).to_contain_text("Committed", timeout=15_000)
    producer.begin()
    expect(page.locator("#newer")).to_contain_text("opened since this page was read")

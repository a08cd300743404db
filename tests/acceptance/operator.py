"""An operator in Chromium: sees what holds a partition back, aborts it, sees readers go on."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Page, expect, sync_playwright

from tests.support.chromium import CHROMIUM, FLAGS
from tests.support.product import Product

_REASON = "left hanging by its producer, holds readers back"


@dataclass(frozen=True, slots=True)
class AbortSeen:
    """What stood on the log page before and after the abort."""

    txn_id: str
    held_back_before: int
    stable_before: int
    stable_after: int


def abort_what_holds_back(product: Product, topic: str, partition: int) -> AbortSeen:
    """Sign in, open the partition's log, abort its blocker with a reason, wait for the move."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(base_url=product.url)
        page.set_default_timeout(60_000)
        page.goto(f"/topics/{topic}/partitions/{partition}/log")
        page.get_by_label("User name").fill(product.login["user"])
        page.get_by_label("Password").fill(product.login["password"])
        page.get_by_role("button", name="Sign in").click()
        blocker = page.locator("#blocker")
        expect(blocker).to_contain_text("holds the stable position", timeout=60_000)
        # On a busy machine a click may come before the page's scripts.
        live = page.locator("[data-live]")
        expect(live).to_have_attribute("data-state", "live", timeout=60_000)
        txn_id = blocker.locator("h2 a").inner_text()
        before = _figure(page, "stable")
        held = _figure(page, "held")
        blocker.locator(".btn.danger").click()
        page.get_by_label("Reason").fill(_REASON)
        page.locator("dialog").get_by_role("button", name="Abort transaction").click()
        # The page goes on by itself, over the live stream: nothing is reloaded here.
        stable = page.locator('[data-figure="stable"]')
        expect(stable).not_to_have_text(f"{before:,}", timeout=60_000)
        expect(blocker.locator("h2")).not_to_contain_text(txn_id, timeout=60_000)
        after = _figure(page, "stable")
        browser.close()
    return AbortSeen(txn_id, held, before, after)


def _figure(page: Page, name: str) -> int:
    return int(page.locator(f'[data-figure="{name}"]').inner_text().replace(",", ""))

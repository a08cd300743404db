"""What holds on every page of ``pages.PAGES``: budgets, policy, silence, accessibility, reflow.

All pages are walked before the test fails, so that one run names everything that is wrong. The
pictures that it took are in ``build/screens``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Page

from tests.console.browser.conftest import Producer, Watched
from tests.console.browser.pages import DOCUMENT, PAGES, PageRow

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

SCREENS = Path(__file__).parents[3] / "build" / "screens"
MAX_SHIFT = 0.02
_AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
_LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_RUN_AXE = """
async (only) => (await axe.run(document, {runOnly: only, resultTypes: ["violations"]})).violations
  .map(({ id, nodes }) =>
    id + ": " + nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | "))
"""
_BYTES = """
() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .map((entry) => entry.encodedBodySize)
"""
_WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture
def addresses(producer: Producer) -> dict[str, str]:
    """Names for the addresses of :data:`PAGES`, of things that exist; more than a page lists."""
    producer.topic = producer.server.topic(partitions=60)
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    everywhere = [f"{producer.topic}:{number}" for number in range(60)]
    producer.client.post(
        f"/transactions/{txn_id}/partitions", json={"partitions": everywhere}
    ).raise_for_status()
    for _ in range(6):
        elsewhere = Producer(producer.server, producer.client, producer.server.topic())
        elsewhere.produce("hidden", txn_id=txn_id)
    producer.subscribe("reader")
    return {"topic": producer.topic, "txn": txn_id, "subscription": "reader"}


def axe(page: Page, only: dict[str, Any]) -> list[str]:
    """What axe-core finds wrong with the page."""
    page.evaluate(_AXE)
    found: list[str] = page.evaluate(_RUN_AXE, only)
    return [f"axe {each}" for each in found]


def look(
    watched: Watched, row: PageRow, names: dict[str, str], variant: str, *, ready: str = ""
) -> None:
    """Open a page, wait until it is drawn (or ``ready`` is visible) and keep a picture of it."""
    answer = watched.page.goto(row.address.format(**names), wait_until="load")
    assert answer is not None
    assert answer.status == row.status, row.name
    watched.page.locator(ready or row.ready).first.wait_for(timeout=10_000)
    SCREENS.mkdir(parents=True, exist_ok=True)
    watched.page.screenshot(path=SCREENS / f"{row.name}-{variant}.png", full_page=True)


def spent(page: Page, row: PageRow) -> list[str]:
    """Which budgets the page exceeds."""
    sizes: list[int] = page.evaluate(_BYTES)
    elements: int = page.evaluate("document.querySelectorAll('*').length")
    shift: float = page.evaluate("window.shift")
    limits = {
        "bytes": (sum(sizes), row.transfer),
        "bytes of the document": (sizes[0], DOCUMENT),
        "elements": (elements, row.elements),
        "layout shift": (shift, MAX_SHIFT),
    }
    return [f"{what}: {is_} of {may}" for what, (is_, may) in limits.items() if is_ > may]


def complaints(watched: Watched, row: PageRow) -> list[str]:
    """What the page said on its console and what the policy blocked, since the last call."""
    found = watched.take_complaints() + watched.violations()
    of_status = f"Failed to load resource: the server responded with a status of {row.status}"
    return [f"console: {each}" for each in found if not each.startswith(of_status)]


@pytest.mark.parametrize("options", [{"color_scheme": "light"}])
def test_pages_keep_their_budgets_and_are_accessible(
    watched: Watched, addresses: dict[str, str], options: dict[str, Any]
) -> None:
    wrong = {}
    for row in PAGES:
        look(watched, row, addresses, "light")
        found = spent(watched.page, row)
        found += axe(watched.page, {"type": "tag", "values": _LEVELS})
        wrong[row.name] = found + complaints(watched, row)
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}])
def test_pages_have_contrast_in_the_dark_too(
    watched: Watched, addresses: dict[str, str], options: dict[str, Any]
) -> None:
    wrong = {}
    for row in PAGES:
        look(watched, row, addresses, "dark")
        found = axe(watched.page, {"type": "rule", "values": ["color-contrast"]})
        wrong[row.name] = found + complaints(watched, row)
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("options", [{"viewport": {"width": 320, "height": 700}}])
def test_no_page_scrolls_sideways_on_a_narrow_screen(
    watched: Watched, addresses: dict[str, str], options: dict[str, Any]
) -> None:
    wrong = {}
    for row in PAGES:
        look(watched, row, addresses, "narrow", ready="main")  # Charts below the fold wait.
        width = watched.page.evaluate(_WIDTH)
        wrong[row.name] = [f"{width} px wide"] if width > 320 else []
        wrong[row.name] += complaints(watched, row)
    assert {name: found for name, found in wrong.items() if found} == {}

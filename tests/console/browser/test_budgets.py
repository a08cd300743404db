"""What holds on every page of ``pages.PAGES``: budgets, policy, silence, accessibility, reflow.

All pages are walked before the test fails, so that one run names everything that is wrong. With
``TXNCONSOLE_SCREENS=1`` it leaves pictures of all of them in ``build/screens``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browser.accessibility import CONTRAST, axe
from tests.console.browser.conftest import Producer, Watched, hold, signed_in
from tests.console.browser.pages import DOCUMENT, PAGES, PAGES_OF_JOBS, PageRow
from tests.console.browser.screens import picture
from tests.server import Served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

_TAKES_PICTURES = bool(os.environ.get("TXNCONSOLE_SCREENS"))
MAX_SHIFT = 0.02
#: Bytes over the wire of a page that was visited before (design/console.md §7).
WARM = 25_000
#: Bytes of our own scripts and style sheets on one page, compressed (there, too).
OURS = 40_000
#: By address: what the page reads again, the longer one looks at it, is no part of the visit.
_BYTES = """
() => {
  const found = new Map();
  for (const kind of ["navigation", "resource"])
    for (const { name, encodedBodySize } of performance.getEntriesByType(kind))
      if (!found.has(name)) found.set(name, encodedBodySize);
  return [...found.values()];
}
"""
_WIDTH = "document.documentElement.scrollWidth"
#: Where state is told by more than words, and must be without colours too.
_IN_FORCED_COLOURS = {"overview", "transactions", "transaction", "log", "alerts"}
_UNMARKED = """
() => [...document.querySelectorAll(".nav [aria-current], .tabs [aria-current]")]
  .filter((each) => each.offsetParent && getComputedStyle(each).outlineStyle === "none").length
"""
#: What came over the wire; streams and what scripts ask for later are left out.
_SENT = """
() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .filter((entry) => entry.initiatorType !== "fetch")
  .reduce((sum, entry) => sum + entry.transferSize, 0)
"""
#: Of our own scripts and style sheets, compressed.
_OURS = """
() => [...new Map(performance.getEntriesByType("resource")
    .filter(({ name }) => /\\/static\\/(js|css)\\//.test(name))
    .map(({ name, encodedBodySize }) => [name, encodedBodySize])).values()]
  .reduce((sum, size) => sum + size, 0)
"""
#: Frames as the channel sends them: twenty messages, every second one in a transaction that ends.
_FRAMES = """
async ([from, to]) => {
  const { live } = await import("/static/js/live.js");
  const summary = JSON.parse(document.getElementById("window").textContent).summary;
  const open = Object.entries(JSON.parse(document.getElementById("window").textContent).txns);
  for (let turn = from; turn <= to; turn += 1) {
    const first = summary.last + 1 + (turn - 1) * 20;
    const txn = `9:${turn}`;
    const entries = Array.from({ length: 20 }, (_, index) =>
      [first + index, index === 19 ? "c" : "m", index % 2 ? txn : null, "key", 0, 10]);
    const detail = { from: first, entries, txns: Object.fromEntries(open),
      summary: { ...summary, last: first + 19, now: summary.now + turn * 1000 } };
    live.dispatchEvent(new CustomEvent("delta", { detail }));
    await new Promise(requestAnimationFrame);
  }
}
"""


@pytest.fixture
def unhurried(watched: Watched) -> Iterator[None]:
    """Pages are renewed each minute: on a slow machine they would be while one is looked at, and
    what comes and goes in a list may move what stands below."""

    def renew_every(seconds: int) -> None:
        watched.page.goto("/coordinators")
        with watched.page.expect_response("**/settings/pace"):
            switch = watched.page.get_by_role("combobox", name="Renew this page every")
            switch.select_option(str(seconds))

    renew_every(60)
    yield
    renew_every(1)


def look(
    watched: Watched, row: PageRow, names: dict[str, str], variant: str, *, ready: str = ""
) -> None:
    """Open a page, wait until it is drawn (or ``ready`` is visible) and keep a picture of it."""
    answer = watched.page.goto(row.address.format(**names), wait_until="load")
    assert answer is not None
    assert answer.status == row.status, row.name
    watched.page.locator(ready or row.ready).first.wait_for()
    picture_if_asked(watched.page, row, variant)


def picture_if_asked(page: Page, row: PageRow, variant: str) -> None:
    """Keep a picture of the page, where pictures were asked for."""
    if _TAKES_PICTURES:
        picture(page, f"{row.name}-{variant}")


def spent(page: Page, row: PageRow) -> list[str]:
    """Which budgets the page exceeds."""
    sizes: list[int] = page.evaluate(_BYTES)
    elements: int = page.evaluate("document.querySelectorAll('*').length")
    shift: float = page.evaluate("window.shift")
    limits = {
        "bytes": (sum(sizes), row.transfer),
        "bytes of the document": (sizes[0], DOCUMENT),
        "bytes of our own scripts and style sheets": (page.evaluate(_OURS), OURS),
        "elements": (elements, row.elements),
        "layout shift": (shift, MAX_SHIFT),
    }
    found = [f"{what}: {is_} of {may}" for what, (is_, may) in limits.items() if is_ > may]
    if shift > MAX_SHIFT:
        found += page.evaluate("window.moved")
    return found


def test_pages_keep_their_budgets_and_are_accessible_in_the_light_and_in_the_dark(
    watched: Watched, addresses: dict[str, str], unhurried: None
) -> None:
    """In the dark only colours are others, so only contrast is asked for again."""
    page, wrong = watched.page, {}
    for row in PAGES + PAGES_OF_JOBS:
        page.emulate_media(color_scheme="light")
        look(watched, row, addresses, "light")
        found = spent(page, row)
        found += axe(page)
        page.emulate_media(color_scheme="dark")
        picture_if_asked(page, row, "dark")
        dark = axe(page, CONTRAST)
        found += [f"in the dark: {each}" for each in dark]
        wrong[row.name] = found + watched.complaints_of(row)
    assert {name: found for name, found in wrong.items() if found} == {}


def test_typefaces_that_come_late_move_nothing_on_the_page(
    watched: Watched, addresses: dict[str, str]
) -> None:
    page = watched.page
    held = hold(page, "**/*.woff2")
    page.goto("/subscriptions", wait_until="commit")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    expect(page.locator("main td").first).to_be_visible()
    page.wait_for_function("[...document.fonts].every(({ status }) => status !== 'unloaded')")
    assert len(held) >= 2
    for route in held:
        route.continue_()
    page.wait_for_load_state("load")
    page.evaluate("document.fonts.ready")
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
    moved: list[str] = page.evaluate("window.moved")
    assert [each for each in moved if not each.startswith("who ")] == []  # "Connecting" is longer.


@pytest.mark.parametrize("options", [{"viewport": {"width": 320, "height": 700}}])
def test_no_page_scrolls_sideways_however_narrow_or_wide_the_screen(
    watched: Watched, addresses: dict[str, str], options: dict[str, Any]
) -> None:
    """Each page is loaded narrow and widened; wide it is looked at in forced colours too."""
    page, wrong = watched.page, {}
    for row in PAGES + PAGES_OF_JOBS:
        page.set_viewport_size({"width": 320, "height": 700})
        page.emulate_media(forced_colors="none")
        look(watched, row, addresses, "narrow", ready="main")  # Charts below the fold wait.
        found = [f"{is_} px wide of 320"] if (is_ := page.evaluate(_WIDTH)) > 320 else []
        page.set_viewport_size({"width": 2560, "height": 1440})
        page.emulate_media(forced_colors="active")
        found += [f"{is_} px wide of 2560"] if (is_ := page.evaluate(_WIDTH)) > 2560 else []
        unmarked: int = page.evaluate(_UNMARKED)
        found += [f"{unmarked} current things have no mark in forced colours"] if unmarked else []
        if row.name in _IN_FORCED_COLOURS:
            picture_if_asked(page, row, "forced")
            found += axe(page)
        wrong[row.name] = found + watched.complaints_of(row)
    assert {name: found for name, found in wrong.items() if found} == {}


#: As many views as a user can keep; what is counted for each is nothing here.
_VIEWS = """
from django.contrib.auth.models import User
from txnconsole.saved_views.keeping import MAX_VIEWS, keep

user = User.objects.get(username="keeps-many-views")
for number in range(MAX_VIEWS):
    keep(user.pk, f"view {number} of many", "client:nobody", "")
"""


@pytest.mark.parametrize("width", [1440, 360])
def test_a_full_list_under_as_many_views_as_can_be_kept_is_within_the_budgets(
    chromium: Browser, server: Served, producer: Producer, width: int
) -> None:
    opened = [producer.begin() for _ in range(50)]
    with server.client("admin") as client:
        given = {"roles": ["operator"], "password": "correct horse 7"}
        client.put("/users/keeps-many-views", json=given).raise_for_status()
    server.manage("shell", "-c", _VIEWS)
    [row] = [row for row in PAGES if row.name == "transactions"]
    screen = {"width": width, "height": 900}
    with signed_in(
        chromium, server, "keeps-many-views", given["password"], viewport=screen
    ) as context:
        watched = Watched(context.new_page())
        page = watched.page
        look(watched, row, {}, f"full-{width}", ready=".viewlist .own .n:not(:empty)")
        found = spent(page, row) + watched.complaints_of(row)
        found += [f"{is_} px wide of {width}"] if (is_ := page.evaluate(_WIDTH)) > width else []
        assert found == []
        page.reload()  # The picture has left a style behind that htmx would copy.
        page.get_by_placeholder("Name this view").fill("one too many")
        page.get_by_role("button", name="Keep view").click()
        expect(page.locator(".keep")).to_contain_text("You keep 20 views, the most there can be.")
        assert [each for each in watched.take_complaints() if "status of 422" not in each] == []
        assert axe(page) == []
    for txn_id in opened:
        producer.end(txn_id, "abort")


def test_a_second_visit_costs_little(watched: Watched, addresses: dict[str, str]) -> None:
    """What is kept by the browser is not sent again (design/console.md §7: 25 kB)."""
    page, wrong = watched.page, {}
    rows = {row.name: row for row in PAGES}
    for name in ("overview", "log", "transactions", "transaction"):
        for _ in range(2):
            look(watched, rows[name], addresses, "light")
        sent: int = page.evaluate(_SENT)
        wrong[name] = [f"{sent} bytes of {WARM}"] if sent > WARM else []
    assert {name: found for name, found in wrong.items() if found} == {}


def test_a_page_that_lives_for_long_does_not_grow(
    watched: Watched, producer: Producer, record_property: Callable[[str, object], None]
) -> None:
    """Frames of minutes, after those of the first, as fast as they are drawn; one transaction
    holds all of them back."""
    page = watched.page
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")
    producer.produce("first", txn_id=producer.begin())
    page.goto(producer.log)
    page.locator("#spans .main-svg").first.wait_for()

    def metrics() -> dict[str, float]:
        client.send("HeapProfiler.collectGarbage")
        answer = client.send("Performance.getMetrics")
        return {each["name"]: each["value"] for each in answer["metrics"]}

    page.evaluate(_FRAMES, [1, 60])
    before = metrics()
    page.evaluate(_FRAMES, [61, 180])
    after = metrics()
    for name in ("Nodes", "JSHeapUsedSize"):
        record_property(name, f"{before[name]:.0f} to {after[name]:.0f}")
    assert after["Nodes"] <= before["Nodes"] * 1.1
    assert after["JSHeapUsedSize"] <= before["JSHeapUsedSize"] + 2_000_000

"""The live channel when the server goes away, comes back, or signs the user out."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from tests.console.browser.conftest import Producer, Watched, hold, hold_first

pytestmark = pytest.mark.browser


def no_stream(route: Route) -> None:
    """As behind a proxy that holds streams back: all else is answered."""
    if route.request.headers.get("accept") == "text/event-stream":
        route.abort()
    else:
        route.continue_()


def test_without_a_stream_the_page_polls_and_goes_live_again(
    context: BrowserContext, producer: Producer
) -> None:
    watched = Watched(context.new_page())
    page = watched.page
    page.route("**/live?*", no_stream)
    page.goto(producer.log)
    button = page.locator("[data-live]")
    expect(button).to_have_attribute("data-state", "polling")
    producer.produce("polled")
    expect(page.locator('[data-figure="last"]')).to_have_text("0")
    page.unroute("**/live?*")
    expect(button).to_have_attribute("data-state", "live")
    producer.produce("live")
    expect(page.locator('[data-figure="last"]')).to_have_text("1")


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 844}}])
def test_on_a_phone_too_how_the_page_is_renewed_is_told_by_word_shape_and_age(
    context: BrowserContext, options: dict[str, Any]
) -> None:
    page = context.new_page()
    page.goto("/transactions")
    button = page.locator("[data-live]")
    seen = []
    for state in ("live", "polling"):
        expect(button).to_have_attribute("data-state", state)
        expect(button.locator("b")).to_have_text(state.capitalize())
        parts = (button, button.locator("b"), button.locator(".age"))
        whole, word, age = (box["width"] if (box := one.bounding_box()) else 0 for one in parts)
        assert word > 15
        assert age > 15
        shape = button.locator(".dot").evaluate("dot => getComputedStyle(dot).borderWidth")
        seen.append((whole, shape))
        page.route("**/live?*", no_stream)
        page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    assert seen[0][0] == seen[1][0]  # Nothing beside it moves.
    assert seen[0][1] != seen[1][1]
    expect(button.locator(".age")).to_have_text(re.compile(" ago$"))


def test_a_stream_that_broke_off_misses_nothing(
    context: BrowserContext, producer: Producer
) -> None:
    watched = Watched(context.new_page())
    page = watched.page
    page.goto(producer.log)
    button = page.locator("[data-live]")
    expect(button).to_have_attribute("data-state", "live")
    context.set_offline(True)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
    producer.produce("missed")
    context.set_offline(False)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    expect(page.locator('[data-figure="last"]')).to_have_text("0")
    expect(page.locator('#grid .cell[data-offset="0"]')).to_have_attribute("data-v", "delivered")


#: Hides the tab, or shows it again; a browser without a window hides none by itself.
_HIDDEN = """
hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


def test_a_tab_that_is_shown_again_is_not_live_before_it_has_heard(
    context: BrowserContext, producer: Producer
) -> None:
    page = Watched(context.new_page()).page
    page.goto(producer.log)
    button = page.locator("[data-live]")
    expect(button).to_have_attribute("data-state", "live")
    page.evaluate(_HIDDEN, True)
    held = hold(page, re.compile("/live?"))
    page.clock.install()
    page.clock.fast_forward(3_600_000)  # An hour in which the computer slept, too.
    page.evaluate(_HIDDEN, False)
    expect(button).to_have_attribute("data-state", "reconnecting")
    expect(button.locator(".age")).to_have_text(re.compile("^1 h 00 min ago$"))
    for route in held:
        route.continue_()
    page.unroute(re.compile("/live?"))
    expect(button).to_have_attribute("data-state", "live")
    expect(button.locator(".age")).to_have_text("now")


def test_a_connection_that_dies_while_it_is_made_is_given_up_for_another(
    context: BrowserContext, producer: Producer
) -> None:
    """As behind a lost network: nobody closes it, and the server answers all others."""
    page = Watched(context.new_page()).page
    page.clock.install()
    hold_first(page, "**/live?*")
    page.goto(producer.log)
    page.clock.run_for(15_000)
    button = page.locator("[data-live]")
    expect(button).to_have_attribute("data-state", "stale")
    page.clock.run_for(10_000)
    expect(button).to_have_attribute("data-state", "live")


#: Seconds pass sooner for what is asked for; the clock of a test does not have them.
_SOONER = """
const timeout = AbortSignal.timeout.bind(AbortSignal);
AbortSignal.timeout = (milliseconds) => timeout(milliseconds / 50);
"""


def test_a_question_that_is_never_answered_is_asked_again(
    context: BrowserContext, producer: Producer
) -> None:
    txn_id = producer.begin()
    page = Watched(context.new_page()).page
    page.add_init_script(_SOONER)
    page.goto("/transactions")
    asked = hold_first(page, "**/transactions/rows?*")
    producer.end(txn_id, "commit")
    expect(page.locator(f'[id="txn-{txn_id}"] .st')).to_have_text("Committed")
    assert len(asked) > 1


def test_a_computer_whose_clock_goes_back_keeps_its_page_renewed(
    context: BrowserContext, producer: Producer
) -> None:
    page = Watched(context.new_page()).page
    page.goto(producer.log)
    last = page.locator('[data-figure="last"]')
    producer.produce("before")
    expect(last).to_have_text("0")
    page.evaluate("const now = Date.now; Date.now = () => now() - 3_600_000")
    producer.produce("after")
    expect(last).to_have_text("1")


#: Says that the page has been read again, and waits for two turns of the channel without news.
_READ_AGAIN = """
async () => {
  const { live } = await import("/static/js/live.js");
  live.moveTo("read again");
  for (let turn = 0; turn < 2; turn += 1) {
    await new Promise((then) => live.addEventListener("tick", then, { once: true }));
  }
}
"""


def test_where_a_page_stands_that_was_read_again_no_turn_without_news_sets_back(
    context: BrowserContext, producer: Producer
) -> None:
    """Shown by a position that the stream does not have: the page asks for what it missed."""
    page = Watched(context.new_page()).page
    page.goto(producer.log)
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    producer.produce("told by the stream")
    expect(page.locator('[data-figure="last"]')).to_have_text("0")
    page.evaluate(_READ_AGAIN)
    with page.expect_request("**/log/window*"):
        page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")


@pytest.mark.parametrize("options", [{"service_workers": "allow"}])
def test_without_a_server_the_browser_shows_the_card_that_it_has_kept(
    context: BrowserContext, options: dict[str, Any]
) -> None:
    page = context.new_page()
    page.goto("/topics")
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    context.set_offline(True)
    page.goto("/transactions")
    expect(page.get_by_role("heading", name="The console cannot be reached")).to_be_visible()
    context.set_offline(False)
    page.get_by_role("link", name="Try now").click()
    expect(page.get_by_role("heading", name="Transactions", exact=True)).to_be_visible()


@pytest.mark.parametrize("options", [{"service_workers": "allow"}])
def test_a_form_that_does_not_arrive_is_not_lost(
    context: BrowserContext, options: dict[str, Any]
) -> None:
    page = context.new_page()
    page.goto("/alerts/silence")
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    page.reload()  # The worker has it from here on.
    page.locator("#id_reason").fill("the broker is moved")
    context.set_offline(True)
    page.locator("main form[method=post] [type=submit]").click()
    expect(page.get_by_text("go back to what you have written")).to_be_visible()
    context.set_offline(False)
    page.go_back()
    expect(page.locator("#id_reason")).to_have_value("the broker is moved")

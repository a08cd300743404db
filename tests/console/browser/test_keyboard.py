"""What a hand on the keyboard alone can do: reach every control of a page and see where it is, fill
a dialog in, and come back out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.conftest import Producer, Watched
from tests.console.browser.pages import PAGES, PAGES_OF_JOBS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(480)]

#: Those that are seldom looked at by anybody who could notice.
_WALKED = {
    *("bulk-abort", "bulk-aborts", "hanging", "timeouts", "snapshots-of", "explain", "invariants"),
    *("alert-rules", "alert-rule", "alert-silence", "settings-tokens", "settings-users"),
    *("pipeline", "run-audit", "seek", "figures", "alert-silences", "run", "bulk-job"),
}
#: Notes each control as it is focused, and what is wrong with it then; null at the end of the page.
#: Of a group of radio buttons one is a stop. A ring may stand around what a control is drawn by.
_WALK = """
() => {
  const walked = new Set();
  const label = (element) => element.outerHTML.replace(/\\s+/g, " ").slice(0, 120);
  const isMarked = (element) => {
    const { outlineStyle, outlineWidth } = element ? getComputedStyle(element) : {};
    return outlineStyle && outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
  };
  const isOther = ({ type, name, checked }) => type === "radio" && !checked
    && document.querySelector(`[name="${name}"]:checked`);
  const isStop = (element) => !element.disabled && element.tabIndex >= 0 && !isOther(element)
    && element.checkVisibility({ visibilityProperty: true })
    && !element.closest("dialog:not([open])");
  const coverOf = (element) => {
    const box = element.getBoundingClientRect();
    const { left, right } = box;
    const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
    const ys = [top + 3, (top + bottom) / 2, bottom - 3];
    const seen = [left + 3, (left + right) / 2, right - 3]
      .flatMap((x) => ys.map((y) => document.elementFromPoint(x, y)))
      .filter((at) => at !== null);
    const isOwn = (at) => element.contains(at) || at.contains(element)
      || at.closest("label")?.control === element;
    return seen.some(isOwn) ? null : (seen[0] ?? document.documentElement);
  };
  window.look = () => {
    const element = document.activeElement;
    if (element === document.body || walked.has(element)) return null;
    walked.add(element);
    const { nextElementSibling, parentElement, firstElementChild } = element;
    const marked = [element, nextElementSibling, parentElement, firstElementChild].some(isMarked);
    const cover = coverOf(element);
    return [
      ...(marked ? [] : ["no ring: " + label(element)]),
      ...(cover ? ["hidden: " + label(element) + " by " + label(cover)] : []),
    ];
  };
  const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  window.missed = () => [...document.querySelectorAll(CONTROLS + ", [tabindex='0']")]
    .filter((element) => isStop(element) && !walked.has(element))
    .map((element) => "missed: " + label(element));
}
"""
_MOST = 300


def stand_still(page: Page) -> None:
    """What comes while one walks, behind one's back, would be missed."""
    live = page.locator("[data-live]")
    if live.count():
        live.evaluate("button => button.click()")  # Without the focus.
        expect(live).to_have_attribute("data-state", "paused")
    expect(page.locator(".htmx-request")).to_have_count(0)


def walk(page: Page, key: str) -> list[str]:
    """Press the key until the page's end; what is wrong with the controls on the way."""
    page.evaluate(_WALK)
    found: list[str] = []
    for _ in range(_MOST):
        page.keyboard.press(key)
        wrong: list[str] | None = page.evaluate("look()")
        if wrong is None:
            break
        found += wrong
    missed: list[str] = page.evaluate("missed()")
    return [f"{key}: {each}" for each in found + missed]


@pytest.fixture
def names(producer: Producer, figures: None, jobs: dict[str, str]) -> Iterator[dict[str, str]]:
    """Of things that the pages tell of, one of them hanging."""
    producer.topic = producer.server.topic(partitions=30)
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    producer.subscribe("reader")
    producer.server.token("viewer", user="of-the-keyboard")
    yield {"topic": producer.topic, "txn": txn_id, "subscription": "reader"} | jobs
    producer.end(txn_id, "abort")


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"viewport": {"width": 390, "height": 800}}, ("Tab", "Shift+Tab")),
        ({"viewport": {"width": 1440, "height": 800}}, ("Shift+Tab",)),
    ],
    ids=["narrow", "wide"],
)
def test_every_control_is_reached_and_seen(
    watched: Watched, names: dict[str, str], options: dict[str, Any], keys: tuple[str, ...]
) -> None:
    """Up the page, where what stays in sight at its top may cover a control; narrow down too."""
    page, found = watched.page, []
    for row in PAGES + PAGES_OF_JOBS:
        if row.name not in _WALKED:
            continue
        page.goto(row.address.format(**names))
        page.locator(row.ready).first.wait_for()
        stand_still(page)
        found += [f"{row.name}: {each}" for key in keys for each in walk(page, key)]
    assert found == []


def test_a_dialog_keeps_the_focus_and_gives_it_back(watched: Watched, producer: Producer) -> None:
    """After an answer too: it takes the place of the form whose button was pressed."""
    page = watched.page
    page.goto(f"/topics/{producer.topic}/partitions/0/snapshots")
    opener = page.locator("main [hx-get$='operate/snapshot']")
    dialog, reason = page.locator("#dialog"), page.locator("#dialog textarea")
    for _ in range(2):
        opener.focus()
        page.keyboard.press("Enter")
        expect(reason).to_be_focused()
        for _ in range(8):
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.closest('main, .nav, .top') === null")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    expect(reason).to_be_focused()
    submit = dialog.locator("[type=submit]")
    submit.focus()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert").first).to_have_text(re.compile("."))
    expect(reason).to_be_focused()
    page.keyboard.type("before the broker is moved")
    submit.focus()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("link", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    assert [each for each in watched.take_complaints() if "status of 422" not in each] == []


def ask_to_abort(page: Page, txn_id: str) -> None:
    """Open the dialog on a transaction's page."""
    page.goto(f"/transactions/{txn_id}")
    page.get_by_role("button", name="Abort").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#dialog textarea")).to_be_focused()


def test_what_had_the_focus_and_is_gone_leaves_it_to_its_part_of_the_page(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    ask_to_abort(page, producer.begin())
    page.keyboard.type("left hanging by a dead producer")
    page.locator("#dialog [type=submit]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#region")).to_contain_text("Aborted")
    expect(page.locator("#region")).to_be_focused()


def test_a_dialog_whose_opener_is_gone_when_it_closes_leaves_the_focus_in_the_page(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    txn_id = producer.begin()
    ask_to_abort(page, txn_id)
    producer.end(txn_id, "commit")
    expect(page.locator("#region [hx-get$='/abort']")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()
    expect(page.locator("#main")).to_be_focused()


def test_a_form_on_a_page_of_its_own_leads_to_what_is_wrong_and_then_to_what_it_has_done(
    watched: Watched, producer: Producer
) -> None:
    """As it is opened in another tab, or by an address that somebody has sent."""
    page = watched.page
    txn_id = producer.begin()
    silence = ("/alerts/silence", "#id_objects_matching", f"transaction:{txn_id}")
    for address, field, text in ((f"/transactions/{txn_id}/abort", "", ""), silence):
        page.goto(address)
        if field:
            page.locator(field).fill("")
        page.locator("main form[method=post] [type=submit]").press("Enter")
        expect(page.locator("main [aria-invalid=true]").first).to_be_focused()
        if field:
            page.keyboard.type(text)
        page.locator("#id_reason").fill("left hanging by a dead producer")
        page.locator("main form[method=post] [type=submit]").press("Enter")
        page.wait_for_url(re.compile(rf"/transactions/{txn_id}$|/alerts/silences$"))
    expect(page.locator("main")).to_contain_text(txn_id)
    assert [each for each in watched.take_complaints() if "status of 422" not in each] == []

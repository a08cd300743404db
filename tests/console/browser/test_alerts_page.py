"""An operator's walk from what fires to who is told, in a real browser and on live workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.alerts.receiver import Receiver
from tests.console.browser.accessibility import keep
from tests.console.browser.conftest import Producer, Watched
from tests.server import Served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(480)]


#: Whether all of an element can be seen, and nothing lies above it.
_IS_WHOLE = """
(element) => {
  element.scrollIntoView({ block: "center" });
  const isAbove = (x, y) => element === document.elementFromPoint(x, y);
  return [...element.getClientRects()].every(({ left, right, top, bottom }) =>
    isAbove(left + 1, (top + bottom) / 2) && isAbove(right - 1, (top + bottom) / 2));
}
"""


#: How many alerts fire, as the tab's title and the navigation say.
_TITLED = r"() => Number(/^\((\d+)\) /.exec(document.title)?.[1] ?? 0)"
_BADGE = """() => {
  const badge = document.querySelector(".nav [data-firing]");
  return badge.hidden ? 0 : parseInt(badge.textContent);
}"""

#: Whether a cell's content is wider than the cell.
_OVERFLOWS = "(cell) => cell.scrollWidth > cell.clientWidth"


@pytest.fixture
def others_silenced(server: Served) -> Iterator[None]:
    """What other tests hold back fires too, and could fill the list; silenced alerts are last."""
    with server.client("admin") as client:
        rules = client.get("/alerts/rules").raise_for_status().json()["items"]
        text = {"objects_matching": "*", "duration_ms": 600_000, "reason": "another test's"}
        made = [
            client.post("/alerts/silences", json={"rule_id": rule["id"]} | text)
            .raise_for_status()
            .json()["id"]
            for rule in rules
        ]
        yield
        for silence in made:
            client.delete(f"/alerts/silences/{silence}").raise_for_status()


@pytest.fixture
def rule(producer: Producer, others_silenced: None) -> Iterator[str]:
    """A rule that the producer's topic breaks as soon as a transaction is open there."""
    name = f"Held back: {producer.topic}"
    with producer.server.client("admin") as client:
        rule = {
            "name": name,
            "kind": "held_back",
            "topics": producer.topic,
            "threshold": 0,
            "severity": "critical",
            "clear_ms": 0,
        }
        made = client.post("/alerts/rules", json=rule).raise_for_status().json()
        yield name
        client.delete(f"/alerts/rules/{made['id']}").raise_for_status()


def fire(page: Page, producer: Producer, rule: str) -> tuple[str, Locator]:
    """Open the list, and a transaction that breaks a rule; gives it and the row of its alert, which
    waits behind a count where others fire."""
    page.goto("/alerts")
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    row = page.get_by_role("row").filter(has_text=rule)
    acknowledge, newer = row.get_by_role("link", name="Acknowledge…"), page.locator(".newer")
    while not acknowledge.is_visible():
        acknowledge.or_(newer).first.wait_for()
        if newer.is_visible():
            page.reload()
    return txn_id, row


def test_on_every_page_with_a_channel_badge_and_title_follow_what_fires(
    watched: Watched, producer: Producer, rule: str
) -> None:
    page = watched.page
    page.goto("/transactions")
    before = page.evaluate(_TITLED)
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    page.wait_for_function(f"before => ({_TITLED})() > before", arg=before)
    assert page.evaluate(f"({_TITLED})() === ({_BADGE})()")
    most = page.evaluate(_TITLED)
    producer.end(txn_id, "abort")
    page.wait_for_function(f"most => ({_TITLED})() < most", arg=most)
    assert page.evaluate(f"({_TITLED})() === ({_BADGE})()")


def test_what_fires_appears_is_acknowledged_and_is_resolved(
    watched: Watched, producer: Producer, rule: str
) -> None:
    page = watched.page
    txn_id, row = fire(page, producer, rule)
    expect(page).to_have_title(re.compile(r"^\(\d+\) Alerts · txnconsole$"))
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    keep(watched.page, "alerts-firing")
    wide = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    assert row.get_by_role("link", name=producer.topic).first.evaluate(_IS_WHOLE)
    keep(watched.page, "alerts-firing-narrow")
    page.goto("/held-back")  # On a phone too, one sees on any page that something fires.
    expect(page.locator(".nav").get_by_role("link", name="Alerts")).to_be_visible()
    page.goto("/alerts")
    assert wide is not None
    page.set_viewport_size(wide)
    row.get_by_role("link", name="Acknowledge…").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Note")).to_be_focused()
    page.keyboard.type("paged the owner")
    keep(watched.page, "alerts-acknowledge")
    page.get_by_role("button", name="Acknowledge").click()
    expect(row).to_contain_text("paged the owner")
    expect(page.locator("dialog[open]")).to_have_count(0)
    row.get_by_role("link", name="Silence…").click()
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Give a reason of at least 8 characters.")
    page.get_by_label("Reason").fill("planned upgrade of the feed")
    keep(watched.page, "alerts-silence")
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(row).to_contain_text("Silenced until")
    watched.take_complaints()  # The browser itself says that the first answer was a 422.
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    keep(watched.page, "alerts-silenced")
    row.get_by_role("link", name=rule).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(rule)
    keep(watched.page, "alert")
    producer.end(txn_id, "abort")
    expect(page.locator("dl.figures")).to_contain_text("Resolved")
    page.goto("/alerts/silences")
    keep(watched.page, "alerts-silences")
    page.get_by_role("row").filter(has_text="planned upgrade").first.get_by_role("button").click()
    expect(page.locator("#main")).to_contain_text("by admin")


def test_a_double_click_silences_once(watched: Watched, server: Served) -> None:
    page = watched.page
    pattern = "partition:nobody/has/this:0"
    page.goto("/alerts")
    page.locator(".page-head").get_by_role("link", name="Silence…").click()
    page.get_by_label("Objects").fill(pattern)
    page.get_by_label("Reason").fill("clicked twice in a hurry")
    with page.expect_response(re.compile("/alerts/silence$")):
        page.get_by_role("button", name="Silence", exact=True).dblclick()
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.goto("/alerts/silences")
    expect(page.get_by_role("row").filter(has_text=pattern)).to_have_count(1)
    with server.client("admin") as client:
        found = client.get("/alerts/silences").raise_for_status().json()["items"]
        [made] = [one for one in found if one["objects_matching"] == pattern]
        client.delete(f"/alerts/silences/{made['id']}").raise_for_status()


def test_a_webhook_is_made_and_tested_and_its_failure_shown(watched: Watched) -> None:
    page = watched.page
    with Receiver().running() as receiver:
        page.goto("/alerts/channels/new?kind=webhook")
        page.get_by_label("Name").fill(f"hook {receiver.port}")
        page.get_by_label("Address").fill(receiver.url)
        page.get_by_role("button", name="Create channel").click()
        expect(page.locator(".secret")).to_contain_text("txs_")
        keep(watched.page, "alert-secret")
        page.reload()
        expect(page.locator(".secret")).to_have_count(0)
        page.get_by_role("button", name="Send a test").click()
        expect(page.locator("#main table")).to_contain_text("has a private address")
        keep(watched.page, "alert-channel-messages")
        assert receiver.received == []
        page.get_by_role("button", name="Delete…").click()
        page.get_by_label("Reason").fill("only tried out")
        page.get_by_role("button", name="Delete channel").click()
        page.wait_for_url("**/alerts/channels")


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 844}}])
def test_on_a_phone_a_messages_subject_is_whole_beside_what_can_be_done(
    watched: Watched, server: Served, options: dict[str, Any]
) -> None:
    page = watched.page
    url = "https://127.0.0.1/hook"  # Refused as private: the message is given up.
    hook = {"name": "a hook with quite a long name", "kind": "webhook", "url": url}
    with server.client("admin") as client:
        made = client.post("/alerts/channels", json=hook).raise_for_status().json()
        channel = made["channel"]["id"]
        client.post(f"/alerts/channels/{channel}/test").raise_for_status()
        page.goto(f"/alerts/channels/{channel}")
        subject = page.locator("tbody th")
        expect(subject).to_contain_text(hook["name"])
        text, button = subject.bounding_box(), page.locator("tbody td.act").bounding_box()
        client.delete(f"/alerts/channels/{channel}").raise_for_status()
    assert text is not None
    assert button is not None
    assert text["x"] + text["width"] <= button["x"]


_HEIGHT = "(element) => element.getBoundingClientRect().height"
#: Puts what is as long as it can get where a value stands that is renewed.
_GROW = """
(row) => {
  const [value, since] = row.querySelectorAll("td.num");
  value.firstChild.replaceWith("1,234,567");
  since.textContent = "59 min 59 s";
}
"""


def test_a_value_that_is_renewed_moves_no_row_that_fires(
    watched: Watched, producer: Producer, rule: str
) -> None:
    page = watched.page
    txn_id, row = fire(page, producer, rule)
    for width in (1024, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        cells = row.locator("th, td")
        before = [cell.bounding_box() for cell in cells.all()]
        row.evaluate(_GROW)
        assert [cell.bounding_box() for cell in cells.all()] == before
        assert not [cell for cell in cells.all() if cell.evaluate(_OVERFLOWS)]
        page.reload()
    producer.end(txn_id, "abort")


def test_what_is_resolved_keeps_the_room_of_its_buttons(
    watched: Watched, producer: Producer, rule: str
) -> None:
    """They make a row of short texts higher: without them what is below it would move."""
    page = watched.page
    page.set_viewport_size({"width": 1440, "height": 900})
    txn_id, row = fire(page, producer, rule)
    page.reload()  # What a page has listed stays there.
    height = row.locator(".acts").evaluate(_HEIGHT)
    producer.end(txn_id, "abort")
    expect(row).to_contain_text("Resolved")
    assert row.locator(".acts").evaluate(_HEIGHT) == height


# However many others fire, the page is not scrolled: what lies under its head is too small for axe.
@pytest.mark.parametrize("options", [{"viewport": {"width": 1440, "height": 3000}}])
def test_the_rows_of_what_is_about_to_fire_stay_under_the_pointer(
    watched: Watched, producer: Producer, options: dict[str, Any]
) -> None:
    """What came or went waits until the pointer has left the table; the values do not."""
    page, server = watched.page, producer.server
    # Others would be among the few rows that the page lists.
    topics = [server.topic(prefix="about-to-fire") for _ in range(3)]
    held = [Producer(server, producer.client, topic) for topic in topics]
    with server.client("admin") as client:
        rule = {
            "name": f"About to fire: {producer.topic}",
            "kind": "held_back",
            "topics": "public/default/about-to-fire-*",
            "threshold": 0,
            "for_ms": 3_600_000,
            "severity": "warning",
        }
        made = client.post("/alerts/rules", json=rule).raise_for_status().json()
    opened = []
    row = {each.topic: page.locator("#region tr").filter(has_text=each.topic) for each in held}
    first, second, third = (row[each.topic] for each in held)
    page.goto("/alerts")
    for each, its_row in zip(held[:2], (first, second), strict=True):
        opened.append(each.begin())
        each.produce("hidden", txn_id=opened[-1])
        # The first to fire are listed first, and what others hold back does within a minute.
        expect(its_row).to_be_visible(timeout=90_000)
    second.hover()
    place, age = second.bounding_box(), second.locator("td").last.inner_text()
    held[0].end(opened[0], "abort")
    expect(first).to_have_attribute("data-gone", "")
    opened.append(held[2].begin())
    held[2].produce("hidden", txn_id=opened[-1])
    # Others may have come too: what other tests hold back fires after a minute.
    waits = re.compile(r"[1-9]\d* new, [1-9]\d* gone")
    expect(page.locator("#waits")).to_contain_text(waits)
    expect(third).to_have_count(0)
    assert second.bounding_box() == place
    expect(second.locator("td").last).not_to_have_text(age)
    keep(watched.page, "alerts-held-still")
    page.mouse.move(2, 2)
    expect(third).to_be_visible()
    expect(first).to_have_count(0)
    expect(page.locator("#waits")).to_be_hidden()
    second.get_by_role("link").first.focus()
    place = second.bounding_box()
    held[2].end(opened[2], "abort")
    expect(third).to_have_attribute("data-gone", "")
    assert second.bounding_box() == place
    page.get_by_role("link", name="Rules").first.focus()
    expect(third).to_have_count(0)
    held[1].end(opened[1], "abort")
    with server.client("admin") as client:
        client.delete(f"/alerts/rules/{made['id']}").raise_for_status()

"""The frame around every page in a real browser: search, palette, keys, settings."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import Producer, Watched, hold, stop_clock

pytestmark = pytest.mark.browser

#: By how much an element's content is wider than it.
_BEYOND = "(one) => one.scrollWidth - one.clientWidth"
#: Widths of screens, also right beside those at which the layout changes.
_LAPTOPS = (1024, 1181, 1280, 1366, 1501, 1701)
#: A transaction that is overdue, has done much, and is somebody's with a long name.
_WIDE = """(row) => {
  const [, id, state, age, left, partitions, messages, acks, held, owner, client] = row.cells;
  row.parentNode.replaceChildren(row);  // What others have done beside this test is not looked at.
  id.firstElementChild.textContent = "15:1234567";
  state.querySelector(".st").append("ting now");
  age.textContent = "59 min 59 s";
  left.innerHTML = '<b class="warn">overdue 59 min 59 s</b><progress class="meter"></progress>';
  for (const one of [partitions, messages, acks, held]) one.textContent = "123,456";
  for (const one of [owner, client]) one.textContent = "n-".repeat(100);
}"""


def test_the_search_box_suggests_and_leads(watched: Watched, producer: Producer) -> None:
    page = watched.page
    producer.subscribe("reader")
    page.goto("/audit")
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Find a transaction")
    expect(box).to_be_focused()
    page.keyboard.type(producer.topic.split("/")[-1])
    options = page.locator("[role=option]")
    expect(options).to_have_count(1)
    expect(options.first).to_contain_text(producer.topic)
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    box.fill(f"{producer.topic}:0")
    expect(options.first).to_contain_text("Partition")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{producer.log}")


def test_the_palette_goes_anywhere_and_does_things(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Commands")
    expect(palette.get_by_role("option").first).to_be_visible()
    page.keyboard.type("dark")
    expect(palette.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    with page.expect_response("**/settings/theme"):
        page.keyboard.press("Enter")
    expect(palette).to_be_hidden()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("Control+k")
    page.keyboard.type("coord")
    expect(palette.get_by_role("option").first).to_contain_text("Coordinators")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/coordinators")
    # Kept with the user, not with this browser.
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('tbody tr') !== null")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("as the system")  # For who looks next.
    expect(palette.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    with page.expect_response("**/settings/theme"):
        page.keyboard.press("Enter")


@pytest.mark.parametrize(
    ("typed", "leads_to"),
    [("audit l", "**/audit"), ("no such thing", "**/search?q=no%20such%20thing")],
)
def test_enter_in_the_palette_takes_the_first_find_or_searches(
    watched: Watched, typed: str, leads_to: str
) -> None:
    page = watched.page
    page.goto("/coordinators")
    page.keyboard.press("Control+k")
    options = page.get_by_role("dialog", name="Commands").get_by_role("option")
    expect(options.first).to_be_visible()
    page.keyboard.press("Enter")  # Of nothing typed it takes nothing.
    expect(options.first).to_be_visible()
    page.keyboard.type(typed)
    page.keyboard.press("Enter")  # Before the server has told what it finds.
    page.wait_for_url(leads_to)


@pytest.mark.parametrize("address", ["/coordinators", "/transactions", "/audit"])
def test_what_the_palette_finds_is_in_sight_on_every_page(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(address)
    page.keyboard.press("Control+k")
    page.keyboard.type("dark")
    page.wait_for_function(
        """() => {
          const option = document.querySelector("#palette-finds [role=option]");
          if (!option) return false;
          const found = option.getBoundingClientRect();
          const around = document.querySelector("#palette").getBoundingClientRect();
          return around.top < found.top && found.top < found.bottom && found.bottom < around.bottom;
        }"""
    )


def test_a_second_enter_sends_a_form_no_second_time(watched: Watched) -> None:
    page = watched.page
    page.goto("/pipeline/start/metrics")
    page.route("**/pipeline/start/metrics", lambda route: route.fulfill(status=204))
    sends = """() => {
      let isSent;
      document.addEventListener("submit", (event) => { isSent = !event.defaultPrevented; });
      document.querySelector("main form[method=post]").requestSubmit();
      return isSent;
    }"""
    with page.expect_request("**/pipeline/start/metrics"):
        assert page.evaluate(sends)
    assert not page.evaluate(sends)


def test_what_is_chosen_stays_so_when_the_server_answers_after_that(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    held = hold(page, "**/search/suggest?q=shortcuts")
    page.keyboard.press("Control+k")
    options = page.get_by_role("dialog", name="Commands").get_by_role("option")
    expect(options.first).to_be_visible()
    with page.expect_request("**/search/suggest?q=shortcuts"):
        page.keyboard.type("shortcuts")
    expect(options).to_have_count(1)
    page.keyboard.press("ArrowDown")
    another = {"kind": "Page", "title": "Coordinators", "detail": "", "address": "/coordinators"}
    held.pop().fulfill(json={"exact": False, "items": [another]})
    expect(options).to_have_count(2)
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()


def test_what_answers_an_earlier_text_does_not_replace_what_a_later_one_offers(
    watched: Watched,
) -> None:
    page = watched.page
    page.clock.install()
    page.goto("/")
    for_all = re.compile(r"/search/suggest\?q=$")
    held = hold(page, for_all)
    with page.expect_request(for_all):
        page.keyboard.press("Control+k")
    stop_clock(page)  # The next is not asked yet.
    page.keyboard.type("shortcuts")
    options = page.get_by_role("dialog", name="Commands").get_by_role("option")
    expect(options).to_have_count(1)
    another = {"kind": "Page", "title": "Coordinators", "detail": "", "address": "/coordinators"}
    with page.expect_response(for_all) as answered:
        held.pop().fulfill(json={"exact": False, "items": [another]})
    answered.value.finished()
    page.evaluate("fetch('/search/suggest?q=later').then((answer) => answer.text())")
    expect(options).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()


def test_who_has_left_the_search_box_is_suggested_nothing(watched: Watched) -> None:
    """However late what suggests has been loaded."""
    page = watched.page
    page.clock.install()
    page.goto("/search?q=public")
    asked, script = hold(page, "**/search/suggest?*"), "**/finder.js"
    held = hold(page, script)
    with page.expect_request(script):
        page.locator("#q").focus()
    page.locator("#main").focus()
    expect(page.locator("#main")).to_be_focused()
    held.pop().continue_()
    expect(page.locator("#q")).to_have_role("combobox")
    page.clock.run_for(1000)
    page.evaluate("fetch('/healthz').then((answer) => answer.text())")
    assert asked == []


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 800}}])
def test_on_a_narrow_screen_all_pages_are_a_tap_away(
    watched: Watched, options: dict[str, Any]
) -> None:
    page = watched.page
    page.goto("/audit")
    page.get_by_role("link", name="All pages").click()
    page.get_by_role("option", name=re.compile("Settings")).click()
    page.wait_for_url("**/settings/profile")


#: Cells of a table's first row over which something else lies, where they can be seen at all.
_COVERED = """
(table) => {
  const { right: edge } = table.closest(".scroll").getBoundingClientRect();
  table.scrollIntoView();
  return [...table.tBodies[0].rows[0].cells].filter((cell) => {
    const { left, right, top, bottom } = cell.getBoundingClientRect();
    const there = document.elementFromPoint(Math.min(right, edge) - 4, (top + bottom) / 2);
    return left < edge && !cell.contains(there);
  }).map((cell) => cell.textContent.trim());
}
"""


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 800}}])
def test_on_a_phone_what_can_be_done_covers_nothing_that_its_row_says(
    watched: Watched, producer: Producer, options: dict[str, Any]
) -> None:
    page = watched.page
    producer.produce("hidden", txn_id=producer.begin())
    covered = {}
    for address in ("/snapshots", "/pipeline", f"/topics/{producer.topic}/partitions/0"):
        page.goto(address)
        covered[address] = page.locator("table:has(td.act)").first.evaluate(_COVERED)
    assert {address: cells for address, cells in covered.items() if cells} == {}


@pytest.mark.parametrize("options", [{"viewport": {"width": 800, "height": 800}}])
def test_no_other_column_s_heading_stands_above_what_can_be_done(
    watched: Watched, options: dict[str, Any]
) -> None:
    page = watched.page
    page.goto("/snapshots")
    button = page.locator("td.act").first
    expect(button).to_be_visible()
    above = button.evaluate(
        """(cell) => {
            const heading = cell.closest("table").tHead.rows[0].cells[0].getBoundingClientRect();
            const { right } = cell.getBoundingClientRect();
            const middle = (heading.top + heading.bottom) / 2;
            return document.elementFromPoint(right - 8, middle).textContent.trim();
        }"""
    )
    assert above == "Action"


def test_a_page_that_fits_its_window_does_not_scroll(watched: Watched) -> None:
    watched.page.goto("/transactions/document")
    beyond = "document.documentElement.scrollHeight - document.documentElement.clientHeight"
    assert watched.page.evaluate(beyond) == 0


@pytest.mark.parametrize("options", [{"viewport": {"width": 1400, "height": 900}}])
def test_on_a_laptop_tables_are_seen_whole(
    watched: Watched, producer: Producer, options: dict[str, Any]
) -> None:
    page = watched.page
    producer.subscribe("reader")
    producer.produce("hidden", txn_id=producer.begin())
    page.goto("/invariants")
    page.get_by_role("button", name="Check now").click()
    page.locator("td.mono a").first.evaluate("(a) => (a.textContent = 'n-'.repeat(55) + ':0')")
    beyond = {"/invariants": page.locator(".scroll").evaluate(_BEYOND)}
    for address in (f"/topics/{producer.topic}", "/settings/limits"):
        page.goto(address)
        beyond[address] = page.locator(".scroll").first.evaluate(_BEYOND)
    assert {address: wide for address, wide in beyond.items() if wide} == {}


def test_on_laptops_of_every_width_tables_are_seen_whole(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    producer.subscribe("a-reader-of-theirs")
    producer.produce("readable")
    producer.produce("hidden", txn_id=producer.begin())
    with producer.server.client("consumer", user="reader-of-theirs") as client:
        client.post(
            f"/topics/{producer.topic}/subscriptions/a-reader-of-theirs/receive",
            json={"consumer": "c-1", "max_messages": 1},
        ).raise_for_status()
    page.goto("/invariants")
    page.get_by_role("button", name="Check now").click()
    expect(page.locator("tbody tr").first).to_be_visible()
    beyond = {}
    hanging = "/transactions/hanging?late=1"
    lists = ("/invariants", "/snapshots", "/topics", "/subscriptions", hanging)
    topic, txn_id = producer.topic, producer.begun[0]
    partition = f"/topics/{topic}/partitions/0/subscriptions"
    audit = f"/audit?object=topic:{topic}"
    subscription = f"/subscriptions/{topic}/a-reader-of-theirs"
    of_topic = (f"/topics/{topic}", partition, subscription, audit)
    of_one = (*of_topic, f"/transactions/{txn_id}", "/transactions")
    for address in (*lists, *of_one):
        page.goto(address)
        if address == audit:
            expect(page.locator("tbody tr").first).to_contain_text("topic.put")
        for width in _LAPTOPS:
            page.set_viewport_size({"width": width, "height": 768})
            if address == "/transactions":
                page.goto(address)  # A list that was read again has its own rows.
                page.locator(".txns tbody tr").first.evaluate(_WIDE)
            # Where nothing hangs yet there is no table.
            widest = f"(tables) => Math.max(0, ...tables.map({_BEYOND}))"
            beyond[address, width] = page.locator(".scroll").evaluate_all(widest)
    # What is in flight would come back while other tests look at the list of subscriptions.
    with producer.server.client("admin") as client:
        client.delete(f"/topics/{topic}/subscriptions/a-reader-of-theirs").raise_for_status()
    assert {address: wide for address, wide in beyond.items() if wide} == {}


def test_a_token_is_made_copied_and_revoked(watched: Watched) -> None:
    page = watched.page
    page.goto("/settings/tokens")
    page.get_by_label("viewer").check()
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#secret")).to_contain_text("txc_")
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("Valid")
    number = row.locator("td").first.inner_text()
    row.get_by_role("button", name="Revoke").click()
    dialog = page.locator("#dialog")
    dialog.get_by_label("Reason").fill("made in a test")
    dialog.get_by_role("button", name="Revoke token").click()
    expect(page.locator(f"#token-{number}")).to_have_count(0)
    page.get_by_role("link", name="Revoked and expired ones too").click()
    expect(page.locator(f"#token-{number}")).to_contain_text("Revoked")


def test_times_are_written_in_the_zone_that_one_chooses(watched: Watched) -> None:
    page = watched.page
    page.goto("/settings/profile")
    page.get_by_label("Time zone").fill("Asia/Kolkata")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_contain_text("Saved")
    page.goto("/settings/users")
    expect(page.get_by_role("columnheader", name="Last signed in (Asia/Kolkata)")).to_be_visible()
    page.goto("/settings/profile")
    page.get_by_label("Time zone").fill("UTC")  # For who looks next.
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_contain_text("Saved")


def test_entries_that_are_added_while_one_reads_wait_behind_a_count(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    page.goto(f"/audit?object=topic:{producer.topic}")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    expect(page.locator(".newer")).to_have_count(0)
    with producer.server.client("admin") as client:
        client.delete(f"/topics/{producer.topic}").raise_for_status()
    expect(page.locator(".newer")).to_contain_text("1 new since this page was read")
    page.locator(".newer").click()
    expect(page.locator(".newer")).to_have_count(0)
    expect(page.locator("tbody tr").first).to_contain_text("topic.delete")

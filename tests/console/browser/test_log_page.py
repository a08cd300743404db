"""The partition log page on live data: what an operator sees and does."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.browser.conftest import PATIENCE, Producer, Watched, hold
from tests.console.browser.log_page import cell, figure, open_log
from tests.server import Served

pytestmark = pytest.mark.browser
REASON = "left hanging by a dead producer"


def test_what_is_produced_appears_without_reloading(watched: Watched, producer: Producer) -> None:
    page = open_log(watched, producer)
    expect(figure(page, "last")).to_have_text("none yet")
    expect(page.locator("#entries")).to_contain_text("nothing has been produced")
    producer.produce("a", "b")
    expect(figure(page, "last")).to_have_text("1")
    expect(cell(page, 1)).to_have_attribute("data-v", "delivered")
    expect(page.locator("#entries tbody tr")).to_have_count(2)
    txn_id = producer.begin()
    producer.produce("c", txn_id=txn_id)
    expect(cell(page, 2)).to_have_attribute("data-st", "OPEN")
    expect(cell(page, 2)).to_have_attribute("data-v", "held")
    producer.end(txn_id, "commit")
    expect(cell(page, 3)).to_have_attribute("data-k", "c")
    expect(cell(page, 2)).to_have_attribute("data-st", "COMMITTED")
    expect(cell(page, 2)).to_have_attribute("data-v", "delivered")
    expect(figure(page, "held")).to_have_text("0")


def test_the_fence_follows_the_stable_position_to_the_end_of_the_log(
    watched: Watched, producer: Producer
) -> None:
    page = open_log(watched, producer)
    for last in (0, 1):
        producer.produce("readable at once")
        expect(figure(page, "stable")).to_have_text(str(last))
        expect(page.locator("#grid .fence")).to_have_attribute("data-offset", str(last + 1))


def test_an_operator_aborts_what_holds_the_partition_back(
    watched: Watched, producer: Producer, server: Served
) -> None:
    hanging = producer.begin()
    producer.produce("before")
    producer.produce("hidden", txn_id=hanging)
    producer.produce("waiting")
    page = open_log(watched, producer)
    blocker = page.locator("#blocker")
    expect(blocker).to_contain_text(f"Transaction {hanging} holds the stable position at 0")
    expect(figure(page, "held")).to_have_text("2")
    expect(cell(page, 2)).to_have_attribute("data-v", "held")

    blocker.get_by_role("button", name="Abort").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("1 message discarded; the stable position moves from 0 to 2")
    reason = dialog.get_by_label("Reason")
    expect(reason).to_be_focused()
    reason.fill("short")
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(dialog.get_by_role("alert")).to_have_text("Give a reason of at least 8 characters.")
    expect(reason).to_have_value("short")
    watched.complaints[:] = [text for text in watched.complaints if "422" not in text]

    reason.fill(REASON)
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(dialog).to_be_hidden()
    expect(figure(page, "stable")).to_have_text("3")
    expect(figure(page, "held")).to_have_text("0")
    expect(blocker).to_contain_text("Nothing holds the stable position back")
    expect(cell(page, 1)).to_have_attribute("data-v", "filtered")
    expect(cell(page, 3)).to_have_attribute("data-k", "a")

    page.goto("/audit?people=1")
    row = page.locator("tbody tr", has=page.get_by_role("cell", name=hanging, exact=True))
    expect(row).to_contain_text(server.user)
    expect(row).to_contain_text(REASON)


def test_what_is_told_of_an_entry_is_read_anew_with_the_window(
    watched: Watched, producer: Producer
) -> None:
    hanging = producer.begin()
    producer.produce("hidden", txn_id=hanging)
    page = open_log(watched, producer)
    inspector = page.locator("#inspector")
    expect(inspector).to_contain_text("Held back")
    page.keyboard.press("r")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "paused")
    producer.end(hanging, "abort")
    page.keyboard.press("r")
    expect(figure(page, "stable")).to_have_text("1")
    expect(inspector).to_contain_text("Filtered")


def test_what_holds_back_is_read_anew_with_a_window_that_tells_of_another(
    watched: Watched, producer: Producer
) -> None:
    """Nothing else would say it: updates are paused."""
    hanging = producer.begin()
    producer.produce("hidden", txn_id=hanging)
    page = open_log(watched, producer)
    expect(page.locator("#blocker")).to_contain_text(f"Transaction {hanging} holds")
    page.locator("[data-live]").click()
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "paused")
    producer.end(hanging, "abort")
    page.locator("#at").fill("0")
    page.locator("#at").press("Enter")
    expect(figure(page, "stable")).to_have_text("1")
    expect(page.locator("#blocker")).to_contain_text("Nothing holds the stable position back")


def test_the_dialog_outlives_the_refreshing_page(watched: Watched, producer: Producer) -> None:
    hanging = producer.begin()
    producer.produce("hidden", txn_id=hanging)
    page = open_log(watched, producer)
    page.locator("#blocker").get_by_role("button", name="Abort").click()
    page.locator("#dialog").get_by_label("Reason").fill("half a sen")
    with page.expect_response(re.compile("/blocker$")):
        producer.produce("more")
    expect(figure(page, "last")).to_have_text("1")
    expect(page.locator("#dialog").get_by_label("Reason")).to_have_value("half a sen")
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()


def test_the_isolation_level_changes_what_a_reader_gets_and_the_address(
    watched: Watched, producer: Producer
) -> None:
    txn_id = producer.begin()
    producer.produce("gone", txn_id=txn_id)
    producer.end(txn_id, "abort")
    page = open_log(watched, producer)
    expect(cell(page, 0)).to_have_attribute("data-v", "filtered")
    page.get_by_label("Read uncommitted").check(force=True)
    expect(cell(page, 0)).to_have_attribute("data-v", "delivered")
    expect(cell(page, 1)).to_have_attribute("data-v", "filtered")
    expect(page).to_have_url(re.compile(r"\?iso=ru$"))
    page.reload()
    expect(cell(page, 0)).to_have_attribute("data-v", "delivered")
    expect(page.get_by_label("Read uncommitted")).to_be_checked()


def test_every_entry_is_reached_by_the_keyboard(watched: Watched, producer: Producer) -> None:
    producer.produce(*"abcdef")
    page = open_log(watched, producer)
    cell(page, 0).focus()
    page.keyboard.press("ArrowRight")
    expect(cell(page, 1)).to_be_focused()
    expect(page.locator("#inspector")).to_contain_text("k-b")
    page.keyboard.press("End")
    expect(cell(page, 5)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(cell(page, 5)).to_be_focused()
    page.keyboard.press("Home")
    expect(cell(page, 0)).to_be_focused()
    assert cell(page, 0).get_attribute("aria-label") == (
        "Offset 0, message, no transaction, delivered"
    )
    page.keyboard.press("Enter")
    expect(page.locator("#dialog pre")).to_have_text("a")
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()


def test_the_entry_with_the_focus_stands_out_among_those_of_its_transaction(
    watched: Watched, producer: Producer
) -> None:
    producer.produce("a", "b", "c", txn_id=producer.begin())
    page = open_log(watched, producer)
    cell(page, 0).focus()
    page.keyboard.press("ArrowRight")
    expect(cell(page, 1)).to_be_focused()
    expect(page.locator("#grid .same")).to_have_count(3)
    widths = [
        cell(page, offset).evaluate("(one) => parseFloat(getComputedStyle(one).outlineWidth)")
        for offset in range(3)
    ]
    assert widths[0] == widths[2] < widths[1]


def test_any_offset_can_be_gone_to_and_the_end_followed_again(
    watched: Watched, producer: Producer
) -> None:
    for _ in range(12):
        producer.produce(*(str(number) for number in range(64)))
    page = open_log(watched, producer)
    expect(cell(page, 767)).to_be_visible()
    page.get_by_label("Go to offset").fill("130")
    page.keyboard.press("Enter")
    expect(cell(page, 130)).to_be_focused()
    expect(page).to_have_url(re.compile(r"at=130"))
    producer.produce("new")
    expect(figure(page, "last")).to_have_text("768")
    expect(cell(page, 130)).to_be_visible()
    page.get_by_role("button", name="Follow the end").click()
    expect(cell(page, 768)).to_be_visible()


def test_going_back_leads_to_what_was_chosen_before(watched: Watched, producer: Producer) -> None:
    page = watched.page
    for turn in range(4):
        producer.produce(*(f"{turn}-{number}" for number in range(200)))
    page.goto(producer.log)
    place, follow = page.get_by_label("Go to offset"), page.locator("#follow")
    for offset in ("3", "500"):
        place.fill(offset)
        place.press("Enter")
        expect(page).to_have_url(re.compile(rf"\?at={offset}$"))
        with page.expect_response("**/blocker"):  # A region that is renewed leaves history alone.
            page.evaluate("htmx.trigger('#blocker', 'refresh')")
        expect(page.locator("#blocker")).not_to_have_attribute("aria-busy", "true")
    page.get_by_label("Read uncommitted").check(force=True)
    expect(page).to_have_url(re.compile(r"\?at=500&iso=ru$"))
    page.go_back()
    expect(page.get_by_label("Read committed")).to_be_checked()
    expect(page.locator("#isolation-name")).to_have_text("READ_COMMITTED")
    page.go_back()
    expect(place).to_have_value("3")
    expect(page.locator('#grid .cell[data-offset="3"]')).to_be_visible()
    page.go_back()
    expect(follow).to_be_hidden()
    expect(page.locator('#grid .cell[data-offset="799"]')).to_be_visible()
    page.go_forward()
    expect(place).to_have_value("3")


def test_the_row_of_the_stable_position_stays_in_sight(
    watched: Watched, producer: Producer
) -> None:
    producer.produce("hidden", txn_id=producer.begin())
    page = open_log(watched, producer)
    for _ in range(10):
        producer.produce(*(str(number) for number in range(64)))
    expect(figure(page, "last")).to_have_text("640")
    expect(cell(page, 0)).to_be_visible()
    expect(cell(page, 640)).to_be_visible()
    expect(page.locator(".gap")).to_contain_text("entries not shown, all held back")
    expect(page.locator(".flag")).to_have_text("none readable yet")


def test_a_burst_larger_than_a_frame_leaves_no_hole(watched: Watched, producer: Producer) -> None:
    page = open_log(watched, producer)
    producer.produce(*(str(number) for number in range(700)))
    expect(figure(page, "last")).to_have_text("699")
    expect(cell(page, 699)).to_have_attribute("data-v", "delivered")
    expect(page.locator("#grid .cell.missing")).to_have_count(0)


def test_keys_are_shown_as_text(watched: Watched, producer: Producer) -> None:
    producer.produce("<img src=x onerror=alert(1)>")
    page = open_log(watched, producer)
    expect(page.locator("#entries")).to_contain_text("k-<img src=x onerror=alert(1)>")
    assert page.locator("#entries img").count() == 0


def test_a_long_key_leaves_room_for_what_a_reader_gets(
    watched: Watched, producer: Producer
) -> None:
    producer.produce("x" * 1000)
    page = open_log(watched, producer)
    expect(page.locator("#entries")).to_contain_text("k-xxx")
    cell(page, 0).focus()
    expect(page.locator("#inspector")).to_contain_text("k-xxx")
    for place in ("#inspector", ".scroll:has(#entries)"):
        hidden = page.locator(place).evaluate("(one) => one.scrollWidth - one.clientWidth")
        assert hidden <= 0, place


def test_on_the_line_of_the_whole_partition_what_has_ended_covers_nothing_that_is_held_back(
    watched: Watched, producer: Producer
) -> None:
    """A transaction of few messages that took long goes over many of others."""
    ended, held = producer.begin(), producer.begin()
    producer.produce("a", txn_id=ended)
    producer.produce("b", txn_id=held)
    producer.produce(*map(str, range(50)))
    producer.end(ended, "abort")
    page = open_log(watched, producer)
    top, height = page.locator(".minimap .aborted").evaluate(
        "(one) => [one.getBBox().y, one.getBBox().height]"
    )
    assert (top, height) == (6, 6)
    whole = page.locator(".minimap .held").evaluate("(one) => one.getBBox().height")
    assert whole == 12


def test_an_empty_partition_has_words_in_place_of_charts_until_something_is_produced(
    watched: Watched, producer: Producer
) -> None:
    page = open_log(watched, producer)
    for chart in ("positions", "spans"):
        words = "Nothing has been produced to this partition yet."
        expect(page.locator(f"#{chart}")).to_have_text(words)
    expect(page.locator(".minimap .end")).to_have_text("none yet")
    expect(page.get_by_label("Offsets", exact=True)).to_have_value("")
    producer.produce("first", txn_id=producer.begin())
    for chart in ("positions", "spans"):
        expect(page.locator(f"#{chart} .main-svg").first).to_be_visible()
    expect(page.locator("#spans")).to_contain_text("none readable yet")


def test_a_small_partitions_charts_name_each_offset_once_and_none_before_the_first(
    watched: Watched, producer: Producer
) -> None:
    producer.produce("first", "second", txn_id=producer.begin())
    page = open_log(watched, producer)
    expect(page.locator("#spans .xtick").first).to_be_visible()
    for chart, ticks in (("spans", ".xtick"), ("positions", ".ytick")):
        named = page.locator(f"#{chart} {ticks}").all_text_contents()
        assert named == ["0", "1"], chart


def test_the_charts_are_drawn_and_described(watched: Watched, producer: Producer) -> None:
    hanging = producer.begin()
    producer.produce("hidden", txn_id=hanging)
    page = open_log(watched, producer)
    expect(page.locator("#positions .main-svg").first).to_be_visible()
    expect(page.locator("#spans")).to_contain_text(hanging)
    expect(page.locator("#positions-text")).to_contain_text("1 offsets held back")
    for name in ("positions", "spans"):
        page.locator(f'[data-values="{name}"] summary').press("Enter")
    newest = page.locator('[data-values="positions"] tbody tr').first
    expect(newest.locator("td")).to_have_text(
        [re.compile(r"\d\d:\d\d:\d\d$"), "none yet", "0", "1"]
    )
    spans = page.locator('[data-values="spans"] tbody tr')
    expect(spans).to_have_count(1)
    expect(spans.locator("th, td")).to_have_text([hanging, "Open", "0", "0"])


def test_the_charts_have_the_colours_of_the_theme_also_when_it_changes(
    watched: Watched, producer: Producer
) -> None:
    producer.produce("a")
    page = watched.page
    page.emulate_media(color_scheme="light")
    page = open_log(watched, producer)
    label = page.locator("#positions .annotation-text", has_text="Last position")
    expect(label).to_be_visible(timeout=PATIENCE)
    ink = "getComputedStyle(document.body).color"
    for scheme in ("light", "dark", "light"):
        page.emulate_media(color_scheme=scheme)
        expect(label).to_have_css("fill", page.evaluate(ink))


def test_updates_pause_and_resume(watched: Watched, producer: Producer) -> None:
    page = open_log(watched, producer)
    page.keyboard.press("r")
    button = page.locator("[data-live]")
    expect(button).to_have_attribute("data-state", "paused")
    producer.produce("unseen")
    expect(figure(page, "last")).to_have_text("none yet")
    button.click()
    expect(button).to_have_attribute("data-state", "live")
    expect(figure(page, "last")).to_have_text("0")


def test_a_page_is_renewed_as_often_as_one_has_chosen(watched: Watched, producer: Producer) -> None:
    """What comes in between waits, the page says how old it is, and nothing is lost."""
    page = watched.page
    producer.produce("first")
    page.goto(producer.log)
    age, last = page.locator("[data-live] .age"), page.locator('[data-figure="last"]')
    expect(age).to_have_text("now")
    pace = page.get_by_role("combobox", name="Renew this page every")
    with page.expect_response("**/settings/pace"):
        pace.select_option("60")
    producer.produce("second")
    expect(age).to_have_text(re.compile(r"^([4-9]|[1-5]\d) s ago"))
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    expect(last).to_have_text("0")
    page.reload()
    expect(last).to_have_text("1")
    expect(pace).to_have_value("60")
    expect(age).to_have_text("now", timeout=2 * PATIENCE)  # Again in a minute, if it was missed.
    producer.produce("third")
    expect(age).to_have_text(re.compile(r"^([4-9]|[1-5]\d) s ago"))
    page.keyboard.press("Control+k")
    option = page.get_by_role("dialog", name="Commands").get_by_role("option")
    expect(option.first).to_be_visible()
    page.keyboard.type("every 1 s")
    expect(option).to_have_count(1)
    page.keyboard.press("ArrowDown")
    with page.expect_response("**/settings/pace"):
        page.keyboard.press("Enter")
    expect(pace).to_have_value("1")
    expect(last).to_have_text("2")


def test_the_whole_partition_is_a_line_along_which_keys_move_the_strip(
    watched: Watched, producer: Producer
) -> None:
    for _ in range(2):
        producer.produce(*map(str, range(400)))
    page = open_log(watched, producer)
    expect(figure(page, "last")).to_have_text("799")
    place = page.get_by_role("slider", name="Place in the whole partition")
    place.focus()
    page.keyboard.press("Home")
    expect(cell(page, 0)).to_be_visible()
    expect(page).to_have_url(re.compile(r"at=0$"))
    expect(place).to_be_focused()
    page.keyboard.press("End")
    expect(cell(page, 799)).to_be_visible()
    expect(page.locator("#follow")).to_be_hidden()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON lines").click()
    assert download.value.suggested_filename.endswith("-0-0-799.json")
    assert len(download.value.path().read_text().splitlines()) == 800


def test_a_test_message_is_sent_from_the_page_and_appears(
    watched: Watched, producer: Producer
) -> None:
    page = open_log(watched, producer)
    page.get_by_role("button", name="Send a test message").click()
    page.get_by_label("Payload").fill("does it arrive?")
    page.get_by_label("Reason").fill("trying the new consumer")
    page.get_by_role("button", name="Send it").click()
    expect(page.locator("#dialog")).to_contain_text("It stands at offset 0.")
    expect(figure(page, "last")).to_have_text("0")


#: What the page's model knows after so many frames of twenty messages, each in a transaction that
#: commits; the reader looks at the beginning (``at`` 0) or follows the end (null).
_KNOWN = """
async ([at, frames]) => {
  const { PartitionLog } = await import("/static/js/log/model.js");
  const upTo = (last) =>
    ({ last, stable: last, start: 0, ongoing: 0, aborted: 0, blocker: null, now: last });
  const nothing = { entries: [], txns: {}, history: [], summary: upTo(-1) };
  const log = new PartitionLog({ columns: 64, rows: 6, base: 0, at, ...nothing }, "rc");
  for (let turn = 0; turn < frames; turn += 1) {
    const from = log.summary.last + 1;
    const entries = Array.from({ length: 20 }, (_, index) =>
      [from + index, index === 19 ? "c" : "m", `1:${turn}`, "", 0, 1]);
    log.apply({ from, entries, txns: {}, summary: upTo(from + 19) });
    log.follow();
  }
  const { size } = log.entries;
  const knowsFirst = log.entries.has(5);
  return [size, log.txns.size, log.history.length, knowsFirst, log.knowsStable];
}
"""


@pytest.mark.parametrize("at", [0, None])
def test_a_page_forgets_what_it_does_not_show(watched: Watched, at: int | None) -> None:
    watched.page.goto("/topics")
    entries, txns, *others = watched.page.evaluate(_KNOWN, [at, 500])
    assert entries <= 6 * 64 + 512 + 20
    assert txns <= 512
    assert others == [300, at == 0, True]


def test_the_last_place_that_was_asked_for_is_the_one_shown(
    watched: Watched, producer: Producer
) -> None:
    for _ in range(12):
        producer.produce(*map(str, range(64)))
    page = open_log(watched, producer)
    held = hold(page, "**/log/window?at=640")
    field = page.get_by_label("Go to offset")
    field.fill("640")
    with page.expect_request("**/log/window?at=640"):
        field.press("Enter")
    field.fill("130")
    field.press("Enter")
    expect(cell(page, 130)).to_be_focused()
    assert held
    for route in held:
        route.continue_()
    producer.produce("later")
    expect(figure(page, "last")).to_have_text("768")
    expect(cell(page, 130)).to_be_visible()
    expect(cell(page, 640)).to_have_count(0)


def test_what_comes_while_a_window_is_read_is_not_lost(
    watched: Watched, producer: Producer
) -> None:
    """Its answer tells of the moment before, and nothing else would come."""
    producer.produce("first")
    page = open_log(watched, producer)
    before = page.request.get(f"{producer.log}/window?at=0").json()
    held = hold(page, "**/log/window?at=0")
    page.get_by_label("Go to offset").fill("0")
    with page.expect_request("**/log/window?at=0"):
        page.keyboard.press("Enter")
    producer.produce("second")
    expect(figure(page, "last")).to_have_text("1")
    held.pop().fulfill(json=before)
    expect(cell(page, 0)).to_be_focused()
    expect(figure(page, "last")).to_have_text("1")
    expect(cell(page, 1)).to_have_attribute("data-v", "delivered")


def let_go(page: Page, address: str, held: list[Route]) -> None:
    """Have all requests to an address answered, those that were held and those to come."""
    page.route(address, lambda route: route.continue_())
    for route in held:
        route.continue_()


#: What the channel says when frames were lost.
_RESYNC = """
async () => {
  const { live } = await import("/static/js/live.js");
  live.dispatchEvent(new Event("resync"));
}
"""


def test_who_goes_to_an_offset_comes_there_also_when_the_window_is_read_again_meanwhile(
    watched: Watched, producer: Producer
) -> None:
    for _ in range(12):
        producer.produce(*map(str, range(64)))
    page = open_log(watched, producer)
    window = "**/log/window?at=130"
    held = hold(page, window)
    page.get_by_label("Go to offset").fill("130")
    with page.expect_request(window):
        page.keyboard.press("Enter")
    with page.expect_request(window):
        page.evaluate(_RESYNC)
    let_go(page, window, held)
    expect(cell(page, 130)).to_be_focused()


#: Marks the body when another frame has been drawn.
_MARK = """
async () => {
  const { live } = await import("/static/js/live.js");
  const drawn = () => requestAnimationFrame(() => (document.body.dataset.drawn = ""));
  live.addEventListener("delta", drawn, { once: true });
}
"""


def test_what_comes_while_the_row_of_the_stable_position_is_read_is_drawn_after_it(
    watched: Watched, producer: Producer
) -> None:
    """The stable position has moved to where the page knows no entry."""
    first, second = producer.begin(), producer.begin()
    producer.produce("first", txn_id=first)
    producer.produce(*map(str, range(200)))
    producer.produce("second", txn_id=second)
    for _ in range(2):
        producer.produce(*map(str, range(300)))
    page = open_log(watched, producer)
    window = "**/log/window"
    held = hold(page, window)
    with page.expect_request(window):
        producer.end(first, "abort")
    page.evaluate(_MARK)
    producer.produce("later")
    expect(page.locator("body")).to_have_attribute("data-drawn", "")
    let_go(page, window, held)
    expect(figure(page, "last")).to_have_text("803")
    expect(page.locator(".flag")).to_have_text("stable 200")
    expect(cell(page, 803)).to_be_visible()


#: Two frames of a message each, one right after the other.
_TWO_FRAMES = """
async () => {
  const { live } = await import("/static/js/live.js");
  const { summary } = JSON.parse(document.getElementById("window").textContent);
  for (const offset of [summary.last + 1, summary.last + 2]) {
    const now = { ...summary, last: offset, stable: offset, now: summary.now + offset };
    const entries = [[offset, "m", null, "", 0, 1]];
    const detail = { from: offset, entries, txns: {}, summary: now };
    live.dispatchEvent(new CustomEvent("delta", { detail }));
    await new Promise(requestAnimationFrame);
  }
}
"""


def test_the_charts_show_the_last_that_came_though_nothing_comes_after_it(
    watched: Watched, producer: Producer
) -> None:
    producer.produce("a", "b")
    page = open_log(watched, producer)
    text = page.locator("#positions-text")
    expect(text).to_contain_text("Last position 1,")
    page.evaluate(_TWO_FRAMES)
    expect(text).to_contain_text("Last position 3,")

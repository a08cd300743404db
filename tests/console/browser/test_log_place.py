"""Going to a place in the log: by offset, by moment, and by what is neither."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.conftest import Producer, Watched
from tests.console.browser.log_page import cell, figure, open_log

pytestmark = pytest.mark.browser


def filled(producer: Producer, rows: int = 20) -> None:
    """So many rows of the strip, of which a transaction that has ended wrote the last third."""
    for _ in range(rows - rows // 3):
        producer.produce(*map(str, range(64)))
    txn_id = producer.begin()
    for _ in range(rows // 3):
        producer.produce(*map(str, range(64)), txn_id=txn_id)
    producer.end(txn_id, "commit")


def go(page: Page, place: str) -> None:
    field = page.get_by_label("Go to offset")
    field.fill(place)
    field.press("Enter")


def offsets(page: Page) -> list[str]:
    return page.locator("#entries tbody th").all_text_contents()


def test_the_table_and_what_is_suggested_for_a_file_follow_the_offset(
    watched: Watched, producer: Producer
) -> None:
    filled(producer)
    page = open_log(watched, producer)
    heading = page.get_by_role("heading", name="Entries around")
    expect(heading).to_have_text("Entries around the stable position")
    go(page, "200")
    expect(heading).to_have_text("Entries around offset 200")
    around = [str(offset) for offset in range(197, 206)]
    assert offsets(page) == around
    first, last = page.get_by_label("Offsets", exact=True), page.get_by_label("to", exact=True)
    expect(first).to_have_value("128")
    expect(last).to_have_value("511")
    page.reload()
    expect(heading).to_have_text("Entries around offset 200")
    assert offsets(page) == around
    expect(last).to_have_value("511")
    page.get_by_role("button", name="Follow the end").click()
    expect(heading).to_have_text("Entries around the stable position")
    expect(first).to_have_value("281")
    expect(last).to_have_value("1280")


def test_the_chart_of_transactions_has_those_of_the_offsets_in_sight(
    watched: Watched, producer: Producer
) -> None:
    here = producer.begin()
    producer.produce("one", "two", txn_id=here)
    producer.end(here, "commit")
    filled(producer)
    page = watched.page
    page.goto(f"{producer.log}?at=0")
    spans = page.locator("#spans")
    expect(spans.locator(".ytick")).to_have_text([here])
    expect(spans).to_contain_text("stable position 1,283 →")
    expect(page.locator("#spans-scope")).to_have_text("Offsets 0 to 383")
    go(page, "500")
    expect(spans).to_have_text("No transaction has an entry among these offsets.")
    go(page, "1280")
    expect(spans.locator(".ytick")).to_have_count(1)
    expect(spans).to_contain_text("stable 1,283")
    expect(spans).not_to_contain_text("→")
    page.get_by_role("button", name="Follow the end").click()
    expect(page.locator("#spans-scope")).to_have_text("First to last entry in this partition")


@pytest.mark.parametrize("written", ["abc", "-5", "25:00"])
def test_what_is_no_place_is_said_below_the_field_and_all_stays_where_it_is(
    watched: Watched, producer: Producer, written: str
) -> None:
    filled(producer)
    page = open_log(watched, producer)
    field, error = page.get_by_label("Go to offset"), page.locator("#at-error")
    go(page, "200")
    expect(cell(page, 200)).to_be_focused()
    go(page, written)
    expect(error).to_contain_text(f"'{written}' is neither an offset nor a moment")
    expect(field).to_have_value(written)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("neither an offset"))
    expect(cell(page, 200)).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?at=200$"))
    expect(page.locator("#strip")).not_to_have_attribute("data-stale", "")
    assert "400" in watched.take_complaints()[0]  # Chromium tells of the answer.

    go(page, "300")
    expect(cell(page, 300)).to_be_focused()
    expect(error).to_be_empty()
    expect(field).not_to_have_attribute("aria-invalid", "true")


def test_an_address_with_what_is_no_place_is_the_log_with_the_error(
    watched: Watched, producer: Producer
) -> None:
    filled(producer)
    page = watched.page
    answer = page.goto(f"{producer.log}?at=abc")
    assert answer
    assert answer.status == 400
    assert "400" in watched.take_complaints()[0]
    expect(page.locator("#at-error")).to_contain_text("'abc' is neither")
    expect(page.get_by_label("Go to offset")).to_have_value("abc")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    producer.produce("new")
    expect(figure(page, "last")).to_have_text("1,281")
    expect(cell(page, 1281)).to_be_visible()


def test_past_the_end_the_end_is_followed_and_named(watched: Watched, producer: Producer) -> None:
    filled(producer)
    page = open_log(watched, producer)
    go(page, "99999999")
    note = page.get_by_text("The last offset is")
    expect(note).to_have_text("The last offset is 1,280.")
    expect(page.get_by_label("Go to offset")).to_have_value("99999999")
    producer.produce(*map(str, range(100)))
    expect(note).to_have_text("The last offset is 1,380.")
    expect(cell(page, 1380)).to_be_visible()
    expect(page.get_by_role("button", name="Follow the end")).to_be_hidden()
    go(page, "5")
    expect(cell(page, 5)).to_be_focused()
    expect(note).to_be_hidden()


def test_a_time_alone_is_todays(watched: Watched, producer: Producer) -> None:
    filled(producer)
    page = open_log(watched, producer)
    go(page, "00:00")
    expect(page.get_by_label("Go to offset")).to_have_value("0")
    expect(cell(page, 0)).to_be_focused()
    expect(page).to_have_url(re.compile(r"\?at=0$"))


def test_what_was_told_of_an_entry_goes_with_it(watched: Watched, producer: Producer) -> None:
    filled(producer)
    page = open_log(watched, producer)
    inspector = page.locator("#inspector")
    cell(page, 1279).click()
    expect(inspector).to_contain_text("1,279")
    page.mouse.move(0, 0)  # It would point at another entry afterwards.
    expect(page.locator("#strip.highlight")).to_be_visible()
    place = page.get_by_role("slider", name="Place in the whole partition")
    place.focus()
    page.keyboard.press("Home")
    expect(cell(page, 0)).to_be_visible()
    expect(inspector).to_have_text("Point at an entry to see its transaction")
    expect(page.locator("#strip.highlight")).to_have_count(0)


def test_what_is_told_of_an_entry_stays_when_its_window_is_read_again(
    watched: Watched, producer: Producer
) -> None:
    filled(producer)
    page = open_log(watched, producer)
    cell(page, 1279).click()
    place = page.get_by_role("slider", name="Place in the whole partition")
    place.focus()
    with page.expect_response("**/log/window*"):
        page.keyboard.press("PageDown")
    expect(page.locator("#inspector")).to_contain_text("1,279")

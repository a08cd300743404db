"""What every page shares: theme, keys, search, working without a script (see test_budgets too)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from engine.model.txn_id import TxnID
from tests.console.browser.conftest import Producer, Watched, stop_clock

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("options", [{"java_script_enabled": False}])
def test_without_a_script_an_operator_can_still_abort(
    context: BrowserContext, producer: Producer, options: dict[str, Any]
) -> None:
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    page = context.new_page()
    page.goto(f"/transactions/{txn_id}")
    expect(page.locator("noscript p")).to_be_visible()
    expect(page.locator("[data-live]")).to_be_hidden()
    for waiting in page.get_by_text("Reading…").all():
        expect(waiting).to_be_hidden()
    page.get_by_role("button", name="Abort").click()
    page.get_by_label("Reason").fill("left hanging by a dead producer")
    page.get_by_role("button", name="Abort transaction").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Transaction {txn_id}")
    expect(page.locator("main")).to_contain_text("operator: left hanging by a dead producer")


def test_the_theme_is_chosen_and_kept(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    button, shown = page.get_by_role("button", name=re.compile("^Theme: ")), page.locator("html")

    def switch() -> None:
        with page.expect_response("**/settings/theme"):
            button.click()

    while button.get_attribute("title") != "Theme: system":  # Somebody chose another before.
        switch()
    switch()
    expect(shown).to_have_attribute("data-theme", "light")
    switch()
    page.reload()
    expect(shown).to_have_attribute("data-theme", "dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(13, 16, 21)"
    switch()
    expect(button).to_have_attribute("title", "Theme: system")


def test_keys_lead_to_pages_and_search(watched: Watched, producer: Producer) -> None:
    page = watched.page
    page.clock.install()
    txn_id = TxnID.parse(producer.begin())
    page.goto("/")
    stop_clock(page)  # The second key counts for a moment only.
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/transactions")
    page.clock.resume()
    page.keyboard.press("/")
    expect(page.get_by_label("Find a transaction, message, topic or subscription")).to_be_focused()
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
    expect(row).to_contain_text("Committed")
    producer.begin()
    expect(page.locator("#newer")).to_contain_text("opened since this page was read")


@pytest.mark.parametrize("options", [{"viewport": {"width": 320, "height": 700}}])
def test_the_longest_names_go_on_below_themselves_on_a_narrow_screen(
    watched: Watched, producer: Producer, options: dict[str, Any]
) -> None:
    producer.topic = topic = producer.server.topic(prefix="n" * 115)
    reader = "r" * 128
    producer.subscribe(reader)
    producer.produce("hidden", txn_id=(txn_id := producer.begin()))
    beyond = "(one) => one.scrollWidth - one.clientWidth"
    addresses = {
        f"/topics/{topic}": "html",
        f"/topics/{topic[:-1]}": "html",  # There is none.
        f"{producer.log}": "html",
        f"/subscriptions/{topic}/{reader}": "html",
        f"/subscriptions/{topic}/{reader}/seek": ".confirm",
        f"/explain?partition={topic}:0&message=0": "html",
        f"/transactions/{txn_id}": "html",
        f"/transactions/{txn_id}/abort": ".effects >> nth=0",  # Which scroll by themselves.
        f"/transactions/bulk/new?id={txn_id}": ".effects >> nth=0",
        "/": "html",  # Its verdict names what is held back the longest.
    }
    found = {}
    for address, whole in addresses.items():
        watched.page.goto(address)
        watched.page.locator("main").wait_for()
        found[address] = watched.page.locator(whole).evaluate(beyond)
    assert {address: wide for address, wide in found.items() if wide > 0} == {}
    assert all("404" in each for each in watched.take_complaints())


#: Words of a text that go over a line's end.
_BROKEN = """
(one) => {
  const broken = [];
  const texts = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/\\w+/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(({ top }) => top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}
"""
_PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.mark.parametrize("options", [_PHONE], ids=["phone"])
def test_names_go_on_below_themselves_between_words(watched: Watched, producer: Producer) -> None:
    name = "treasury/settlement/end-of-day-of-all-clearing-houses"
    with producer.server.client("admin") as admin:
        admin.put(f"/topics/{name}", json={}).raise_for_status()
        admin.put(f"/topics/{name}/subscriptions/nightly", json={}).raise_for_status()
    producer.topic = name
    producer.produce("hidden", txn_id=(txn_id := producer.begin()))
    addresses = (
        "/topics?q=treasury",
        "/snapshots?q=treasury",
        "/subscriptions?q=treasury",
        f"/transactions/{txn_id}",
    )
    broken = {}
    for address in addresses:
        watched.page.goto(address)
        row = watched.page.locator("th.name", has_text="treasury/settlement/").first
        expect(row).to_be_visible()
        expect(row).to_contain_text(name)
        broken[address] = row.evaluate(_BROKEN)
    producer.end(txn_id, "abort")  # Pages of other tests show what is held back.
    assert not any(broken.values()), broken


@pytest.mark.parametrize("options", [_PHONE], ids=["phone"])
def test_the_tab_that_one_is_on_is_in_sight(watched: Watched, producer: Producer) -> None:
    page = watched.page
    page.goto(f"/topics/{producer.topic}/partitions/0/models")
    expect(page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=0.9)


@pytest.mark.parametrize("options", [_PHONE], ids=["phone"])
def test_no_figure_of_a_coordinator_is_half_covered(watched: Watched) -> None:
    page = watched.page
    page.goto("/coordinators")
    assert (
        page.locator("#tc-0 td").evaluate_all(
            """(cells) => cells.filter((cell) => {
          const text = document.createRange();
          text.selectNodeContents(cell);
          const { right, top, bottom, width } = text.getBoundingClientRect();
          if (!width || right > cell.closest(".scroll").getBoundingClientRect().right) return false;
          return !cell.contains(document.elementFromPoint(right - 2, (top + bottom) / 2));
        }).map((cell) => cell.textContent)"""
        )
        == []
    )


@pytest.mark.parametrize("options", [{"viewport": {"width": 1400, "height": 900}}], ids=["laptop"])
def test_a_long_name_pushes_no_column_of_topics_out_of_sight(
    watched: Watched, producer: Producer
) -> None:
    name = producer.server.topic(prefix="settlement-events-of-all-subsidiaries-in-europe")
    producer.topic = name
    producer.produce("hidden", txn_id=(txn_id := producer.begin()))
    watched.page.goto(f"/topics?q={name}")
    expect(watched.page.locator("th.name")).to_have_count(1)
    table = watched.page.locator("main .scroll")
    beyond = table.evaluate("(one) => one.scrollWidth - one.clientWidth")
    producer.end(txn_id, "abort")
    assert beyond == 0

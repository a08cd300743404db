"""A partition from all its sides, as an administrator walks through them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.console.browser.conftest import Producer, Watched
from tests.console.browser.screens import picture

pytestmark = [pytest.mark.browser, pytest.mark.timeout(480)]

REASON = "walked through by a test"


@pytest.fixture
def busy(producer: Producer) -> dict[str, str]:
    """A partition with every kind of entry; two transactions hold it, one behind the other, and
    one of them has acknowledged a message that a third was refused."""
    producer.subscribe("reader")
    producer.produce("a", "b", "c")
    consumer = producer.server.client("producer,consumer", user="flights-feed")
    committed, aborted, first, second = (producer.begin() for _ in range(4))
    producer.produce("kept", "kept too", txn_id=committed)
    producer.produce("dropped", txn_id=aborted)
    producer.end(committed, "commit")
    producer.end(aborted, "abort")
    producer.produce("held", txn_id=first)
    producer.produce("held too", txn_id=second)
    producer.produce("behind", "and more")
    own = f"/topics/{producer.topic}/subscriptions/reader"
    with consumer:
        taken = consumer.post(f"{own}/receive", json={"consumer": "c1", "max_messages": 4})
        ids = [message["message_id"] for message in taken.raise_for_status().json()["messages"]]
        acks = [(ids[0], None, 200), (ids[1], first, 200), (ids[1], second, 409)]
        for message_id, txn_id, status in acks:
            body = {"consumer": "c1", "message_ids": [message_id], "txn_id": txn_id}
            assert consumer.post(f"{own}/ack", json=body).status_code == status
    return {"first": first, "second": second, "aborted": aborted}


def test_a_partition_is_walked_through(
    watched: Watched, producer: Producer, busy: dict[str, str]
) -> None:
    page = watched.page
    here = f"/topics/{producer.topic}/partitions/0"

    # The stack, and an operation that changes the page under the dialog.
    page.goto(here)
    rows = page.locator("[id^='blocker-']")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(busy["first"])
    picture(page, "walk-summary")
    page.get_by_role("button", name="Take offline…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Take offline").click()
    expect(dialog).to_contain_text("Give a reason of at least 8 characters")
    assert all("422" in complaint for complaint in watched.take_complaints())
    dialog.get_by_label("Reason").fill(REASON)
    picture(page, "walk-offline-dialog")
    dialog.get_by_role("button", name="Take offline").click()
    expect(dialog).to_contain_text("is offline")
    dialog.get_by_role("link", name="Close").click()
    expect(page.get_by_role("alert").first).to_contain_text(REASON)
    page.get_by_role("button", name="Bring online…").click()
    dialog.get_by_label("Reason").fill(REASON)
    dialog.get_by_role("button", name="Bring online").click()
    expect(dialog).to_contain_text("is online")
    dialog.get_by_role("link", name="Close").click()

    # Through time: the slider by keyboard, the replay by its button, both in the address.
    page.get_by_role("link", name="History", exact=True).click()
    slider = page.get_by_label("Moment")
    expect(slider).to_be_enabled()
    expect(page.locator("#history .main-svg").first).to_be_visible()
    expect(page.locator('[data-read="holder"]')).to_have_text(busy["first"])
    slider.focus()
    slider.press("Home")
    expect(page.locator('[data-read="last"]')).to_have_text("none yet")
    expect(page).to_have_url(re.compile(r"[?&]at=\d+"))
    page.get_by_role("button", name="Replay").click()
    expect(page.locator('[data-read="held"]')).to_have_text("4")
    expect(page.get_by_role("button", name="Replay")).to_be_visible()
    picture(page, "walk-history")

    # What a fetch gets, and whether the index lies.
    page.get_by_role("link", name="Aborted ranges").click()
    page.get_by_label("From offset").fill("0")
    page.get_by_label("To offset").fill("12")
    page.get_by_role("button", name="Fetch").click()
    expect(page.locator("main")).to_contain_text("5 messages returned")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("main")).to_contain_text("Index and log agree")
    page.go_back()
    picture(page, "walk-aborted")

    page.get_by_role("link", name="Snapshots").last.click()
    page.get_by_role("button", name="Rehearse").click()
    expect(page.locator("main")).to_contain_text("It would start")
    picture(page, "walk-snapshots")
    page.get_by_role("link", name="Delivery models").click()
    expect(page.get_by_role("row", name=re.compile("^Committed order"))).to_contain_text("7")
    picture(page, "walk-models")


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 844}}])
def test_on_a_phone_the_times_of_a_history_are_whole_and_level(
    watched: Watched, producer: Producer, options: dict[str, Any]
) -> None:
    page = watched.page
    producer.produce("a")

    def of_that_hour(route: Route) -> None:
        """Four marks are written below it, whatever the time is now."""
        answer = route.fetch()
        found = answer.json()
        since = found["points"][0][0]
        for point in found["points"]:
            point[0] += 1_795_981_680_000 - since  # 19:48
        route.fulfill(response=answer, json=found)

    page.route("**/history/points*", of_that_hour)
    page.goto(f"/topics/{producer.topic}/partitions/0/history")
    ticks = page.locator("#history .xtick text")
    expect(ticks.first).to_be_visible()
    turned = ticks.evaluate_all("(all) => all.map((one) => one.getAttribute('transform') ?? '')")
    assert [each for each in turned if "rotate" in each] == []


def test_a_message_and_a_subscription_are_explained(
    watched: Watched, producer: Producer, busy: dict[str, str]
) -> None:
    page = watched.page
    page.goto(f"/subscriptions/{producer.topic}/reader")
    expect(page.locator(".conflicts .holds")).to_have_count(1)
    expect(page.locator(".conflicts .refused")).to_have_count(1)
    picture(page, "walk-subscription")
    page.get_by_role("link", name="Why can it not see a message?").click()
    page.get_by_label("Message id or offset").fill("1")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#h-verdict")).to_contain_text("does not get it")
    expect(page.locator("main")).to_contain_text("Acknowledged in a transaction that is undecided")
    picture(page, "walk-explain")

    # The abort of what is in the way changes the answer in place.
    page.get_by_role("button", name=f"Abort… transaction {busy['first']}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(REASON)
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(page.locator("#h-verdict")).to_contain_text("may get it")

    page.goto(f"/subscriptions/{producer.topic}/reader")
    page.get_by_role("button", name="Move…").click()
    dialog.get_by_label("Go on from").select_option("latest")
    dialog.get_by_label("Reason").fill(REASON)
    picture(page, "walk-seek-dialog")
    dialog.get_by_role("button", name="Move it").click()
    expect(dialog).to_contain_text("goes on elsewhere")


def test_a_topic_is_made_and_deleted(watched: Watched, producer: Producer) -> None:
    page = watched.page
    name = f"{producer.topic}-made"
    page.goto("/topics")
    picture(page, "walk-topics")
    page.get_by_role("button", name="Create topic…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_be_focused()
    page.keyboard.type(name.removeprefix("public/default/"))  # Which stands there already.
    expect(dialog.get_by_label("Name")).to_have_value(name)
    dialog.get_by_label("Partitions").fill("3")
    dialog.get_by_label("Reason").fill(REASON)
    picture(page, "walk-create-dialog")
    dialog.get_by_role("button", name="Create topic").click()
    page.wait_for_url(f"**/topics/{name}")
    expect(page.locator("[id^='partition-']")).to_have_count(3)
    page.get_by_role("button", name="Delete topic…").click()
    dialog.get_by_label("Write its name to confirm").fill(name)
    dialog.get_by_label("Reason").fill(REASON)
    picture(page, "walk-delete-dialog")
    dialog.get_by_role("button", name="Delete topic").click()
    page.wait_for_url("**/topics")
    done = page.get_by_text(f"{name} is deleted.")
    expect(done).to_be_visible()
    assert page.evaluate("document.activeElement.textContent") == done.text_content()
    # The page below the dialog may have read itself again before the browser left it.
    assert all("404" in complaint for complaint in watched.take_complaints())


def test_a_history_of_two_days_names_the_days_below_its_hours(
    watched: Watched, producer: Producer
) -> None:
    producer.produce("a")
    watched.page.goto(f"/topics/{producer.topic}/partitions/0/history?range=2d")
    day = watched.page.locator("#history .xtick tspan", has_text=re.compile(r"^[A-Z][a-z]{2} \d+$"))
    expect(day.first).to_be_attached()
    assert day.first.evaluate("(one) => getComputedStyle(one).fill") != "none"

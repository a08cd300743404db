"""The transaction side of the console, as an operator walks through it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Browser, Route, expect

from tests.console.browser.conftest import Producer, Watched, hold, hold_first, signed_in
from tests.console.browser.screens import picture
from tests.server import Served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(480)]
REASON = "a dead deployment left these"
_PASSWORD = "correct horse 7"


def test_the_longest_name_of_a_client_leaves_room_for_the_rest(
    watched: Watched, producer: Producer
) -> None:
    page, body = watched.page, {"timeout_ms": 600_000, "client": "c" * 256}
    txn_id = producer.client.post("/transactions", json=body).raise_for_status().json()["txn_id"]
    producer.produce("hidden", txn_id=txn_id)
    beyond = "(one) => one.scrollWidth - one.clientWidth"
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/transactions?q=state:open")
    assert page.locator(".scroll:has(.txns)").evaluate(beyond) <= 0
    page.goto(f"/topics/{producer.topic}/partitions/0")
    assert page.locator(".scroll:has([id^=blocker-])").evaluate(beyond) <= 0
    page.goto(f"/transactions/{txn_id}")
    page.get_by_role("button", name="Abort…").first.click()
    expect(page.locator("#dialog")).to_contain_text("ccc")
    assert page.locator("#dialog").evaluate(beyond) <= 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(producer.log)
    expect(page.locator("#blocker")).to_contain_text("ccc")
    assert page.locator("#blocker .blocker").evaluate(beyond) <= 0


def test_who_does_not_see_the_page_hears_how_the_transaction_has_ended(
    watched: Watched, producer: Producer
) -> None:
    txn_id = producer.begin()
    watched.page.goto(f"/transactions/{txn_id}")
    expect(watched.page.locator("[data-live]")).to_have_attribute("data-state", "live")
    expect(watched.page.get_by_role("status").last).to_have_text("")
    producer.end(txn_id, "commit")
    expect(watched.page.get_by_role("status").last).to_have_text("The transaction is committed")


def test_the_longest_name_of_a_topic_pushes_no_figure_out_of_sight(
    watched: Watched, producer: Producer
) -> None:
    page, name = watched.page, f"0/first-listed/{'longest-' * 16}"
    with producer.server.client("admin") as client:
        client.put(f"/topics/{name}", json={}).raise_for_status()
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto("/topics")
        expect(page.get_by_role("link", name=name)).to_be_visible()
        beyond = "(one) => one.scrollWidth - one.clientWidth"
        assert page.locator("main .scroll").first.evaluate(beyond) <= 0
        client.delete(f"/topics/{name}").raise_for_status()


def test_many_are_found_chosen_and_aborted_together(watched: Watched, producer: Producer) -> None:
    page, view = watched.page, f"batch {producer.topic[-12:]}"
    opened = [producer.begin() for _ in range(42)]
    for txn_id in opened:
        producer.produce("left", txn_id=txn_id)
    page.goto("/transactions")
    page.keyboard.press("f")
    query = page.get_by_role("combobox", name="Query")
    expect(query).to_be_focused()
    query.press_sequentially("sta")
    expect(page.locator("[role=option]")).to_have_count(1)
    query.press("ArrowDown")
    query.press("Enter")
    expect(query).to_have_value("state:")
    query.press("ArrowDown")
    picture(page, "transactions-completion")
    query.press("Enter")
    query.press_sequentially(f"topic:{producer.topic}")
    query.press("Escape")
    query.press("Enter")
    address = f"q=state%3Aopen+topic%3A{producer.topic.replace('/', '%2F')}"
    expect(page).to_have_url(re.compile(re.escape(address)))
    expect(page.locator("tr[data-txn]")).to_have_count(25)
    page.locator("thead").get_by_role("link", name="Opened").click()
    expect(page.locator(f'tr[data-txn="{opened[0]}"]')).to_contain_text("42")

    page.get_by_label("Name this view").or_(page.locator("#view-name")).fill(view)
    page.get_by_role("button", name="Keep view").click()
    own = page.locator(".viewlist .own").filter(has_text=view)
    expect(own).to_have_count(1)

    page.locator("[data-select-page]").check()
    expect(page.locator("[data-selected]")).to_have_text("25 selected")
    page.get_by_role("button", name="Select all 42 open that match").click()
    expect(page.locator("[data-selected]")).to_have_text("All 42 open matching selected")
    picture(page, "transactions-selected")
    page.locator("#selectbar").get_by_role("button", name="Abort").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("Abort 42 transactions?")
    expect(dialog).to_contain_text("The stable position of 1 partition moves")
    dialog.get_by_role("button", name="Abort 42 transactions").click()
    expect(dialog).to_contain_text("Type the number of transactions.")
    [refused] = watched.take_complaints()  # The browser's own word for a 422.
    assert "422" in refused
    picture(page, "bulk-abort-dialog")
    dialog.get_by_label("Type 42").fill("42")
    dialog.get_by_label("Reason").fill(REASON)
    dialog.get_by_role("button", name="Abort 42 transactions").click()
    page.wait_for_url(re.compile(r"/transactions/bulk/\d+$"))
    expect(page.locator("#region")).to_contain_text("Done")
    expect(page.locator(".figures")).to_contain_text("Aborted42")
    picture(page, "bulk-job")

    page.goto("/transactions")
    own.get_by_role("button", name=f"Delete the view {view}").click()
    expect(own).to_have_count(0)


def test_of_a_view_that_is_deleted_the_focus_stays_beside_the_others_and_once_more_it_says_so(
    watched: Watched, producer: Producer
) -> None:
    page, name = watched.page, f"of {producer.topic[-12:]}"
    page.goto(f"/transactions?q=topic:{producer.topic}")
    page.locator("#view-name").fill(name)
    page.get_by_role("button", name="Keep view").click()
    expect(page.locator(".viewlist .own").filter(has_text=name)).to_be_visible()
    other = page.context.new_page()
    # Its list is not read again, or it would be without the view before it is deleted there.
    other.route(re.compile(r"/transactions/views(\?|$)"), lambda _: None)
    other.goto("/transactions")
    for tab in (page, other):
        own = tab.locator(".viewlist .own").filter(has_text=name)
        own.get_by_role("button").focus()
        tab.keyboard.press("Enter")
        expect(own).to_have_count(0)
        expect(tab.locator("#views")).to_be_focused()
    expect(other.locator("#views")).to_contain_text("There is no such view any more.")
    other.close()


def test_counts_of_views_follow_what_happens_and_leave_what_is_typed_beside_them(
    watched: Watched, producer: Producer
) -> None:
    page, name = watched.page, f"on {producer.topic[-12:]}"
    page.goto(f"/transactions?q=topic:{producer.topic}")
    page.locator("#view-name").fill(name)
    page.get_by_role("button", name="Keep view").click()
    counted = page.locator(".viewlist .own").filter(has_text=name).locator(".n")
    expect(counted).to_have_text("0")
    page.locator("#view-name").press_sequentially("half a na")
    txn_id = producer.begin()
    producer.produce("x", txn_id=txn_id)
    expect(counted).to_have_text("1")
    expect(page.locator("#view-name")).to_have_value("half a na")
    expect(page.locator("#view-name")).to_be_focused()
    everybodys = (
        page.locator(".viewlist").get_by_role("link", name=re.compile("^Open")).locator(".n")
    )
    expect(everybodys).to_have_text(page.locator('#live-counts [data-figure="open"]').inner_text())
    producer.end(txn_id, "abort")
    assert watched.complaints == []
    assert watched.violations() == []


def test_who_has_closed_the_list_is_not_offered_what_is_answered_after_that(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    page.goto("/transactions")
    query, asked = page.get_by_role("combobox", name="Query"), re.compile("part=")
    held = hold(page, asked)
    with page.expect_request(asked):
        query.fill("topic:public")
    query.press("Escape")
    with page.expect_response(asked) as answered:
        held.pop().fulfill(json={"values": [producer.topic]})
    answered.value.finished()
    page.evaluate("fetch('/search/suggest?q=later').then((answer) => answer.text())")
    expect(page.locator("#query-options")).to_be_hidden()


def test_a_transaction_tells_its_whole_story(
    watched: Watched, producer: Producer, server: Served
) -> None:
    page = watched.page
    producer.subscribe("worker")
    source = producer.begin()
    producer.produce("one", "two", txn_id=source)
    producer.end(source, "commit")
    work = producer.begin()
    with server.client("consumer,producer", user="flights-feed") as client:
        address = f"/topics/{producer.topic}/subscriptions/worker"
        taken = client.post(
            f"{address}/receive", json={"consumer": "c1", "max_messages": 2, "wait_ms": 30_000}
        )
        ids = [each["message_id"] for each in taken.raise_for_status().json()["messages"]]
        assert ids
        client.post(
            f"{address}/ack", json={"consumer": "c1", "message_ids": ids, "txn_id": work}
        ).raise_for_status()
    producer.produce("result", txn_id=work)
    page.goto(f"/transactions/{source}")
    lineage = page.locator("#lineage")  # A partition's name may end as an id does.
    expect(lineage.get_by_role("link", name=work, exact=True)).to_be_visible()
    page.goto(f"/transactions/{work}")
    expect(page.locator("#timeline .main-svg").first).to_be_visible()
    expect(lineage.get_by_role("link", name=source, exact=True)).to_be_visible()
    expect(page.locator("#atomicity")).to_contain_text("All agree")
    expect(page.locator("#messages")).to_contain_text("k-result")
    picture(page, "transaction-open")
    page.get_by_text("Copy id").click()
    expect(page.get_by_role("button", name="canonical")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="canonical")).to_be_hidden()
    producer.end(work, "commit")
    expect(page.locator("#region")).to_contain_text("Committed")
    page.get_by_text("Show as table").click()
    page.reload()
    expect(page.locator("#timeline .main-svg").first).to_be_visible()
    page.get_by_text("Show as table").click()
    expect(page.locator(".astable")).to_contain_text("Marker")
    picture(page, "transaction-story")


@pytest.fixture
def olga(server: Served) -> str:
    """Somebody who may read only their own transactions, and has none yet."""
    name = f"olga-{secrets.token_hex(4)}"
    with server.client("admin") as client:
        given = {"roles": ["producer"], "password": _PASSWORD}
        client.put(f"/users/{name}", json=given).raise_for_status()
    return name


@pytest.fixture
def owner(
    chromium: Browser, server: Served, olga: str, options: dict[str, Any]
) -> Iterator[Watched]:
    """A page in which she is signed in."""
    with signed_in(chromium, server, olga, _PASSWORD, **options) as context:
        yield Watched(context.new_page())


def test_an_owner_watches_their_own_transactions_live(
    owner: Watched, olga: str, producer: Producer, server: Served
) -> None:
    page, theirs = owner.page, producer
    with server.client("producer", user=olga) as client:
        own = Producer(server, client, producer.topic)
        txn_id = own.begin()
        own.produce("own", txn_id=txn_id)
        page.goto("/transactions")
        live = page.locator("[data-live]")
        expect(live).to_have_attribute("data-state", "live")
        expect(page.locator('#live-counts [data-figure="open"]')).to_have_text("1")
        picture(page, "transactions-owner")
        theirs.begin()
        second = own.begin()
        expect(page.locator("#newer")).to_contain_text("1 opened since")
        expect(page.locator('#live-counts [data-figure="open"]')).to_have_text("2")
        own.end(txn_id, "commit")
        expect(page.locator(f'tr[data-txn="{txn_id}"]')).to_contain_text("Committed")
        page.goto(f"/transactions/{second}")
        expect(live).to_have_attribute("data-state", "live")
        own.end(second, "abort")
        expect(page.locator("#region")).to_contain_text("Aborted")
    assert owner.complaints == []
    assert owner.violations() == []


def test_what_was_being_opened_when_the_page_was_read_is_told_of_too(
    owner: Watched, olga: str, producer: Producer, server: Served
) -> None:
    """It bears its moment before anybody can see it."""

    def belongs_to(name: str) -> None:
        with psycopg.connect(server.environment["DATABASE_URL"]) as connection:
            connection.execute(
                "UPDATE coordinator.transaction SET owner = %s WHERE tc_id || ':' || sequence = %s",
                [name, unseen],
            )

    page = owner.page
    with server.client("producer", user=olga) as client:
        own = Producer(server, client, producer.topic)
        unseen = own.begin()
        belongs_to("nobody yet")
        seen = own.begin()
        page.goto("/transactions")
        expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
        expect(page.locator(f'tr[data-txn="{seen}"]')).to_be_visible()
        expect(page.locator(f'tr[data-txn="{unseen}"]')).to_have_count(0)
        belongs_to(olga)
        expect(page.locator("#newer")).to_contain_text("1 opened since")
    assert owner.complaints == []


def test_the_idle_time_of_a_timeline_is_hidden_and_stays_so(
    watched: Watched, producer: Producer
) -> None:
    """The server's timeline is of a transaction that waited for most of its life."""
    page = watched.page
    txn_id = producer.begin()
    producer.produce("a", txn_id=txn_id)

    def with_a_wait(route: Route) -> None:
        figure = route.fetch().json()
        figure["idle"] = [[0.25, 0.5, "1 h 00 min"]]
        route.fulfill(json=figure)

    page.route("**/timeline*", with_a_wait)
    page.goto(f"/transactions/{txn_id}")
    hide = page.get_by_label("Hide idle time")
    expect(hide).to_be_visible()
    with page.expect_request("**/timeline?idle=hidden"):
        hide.check()
    expect(page.locator("#timeline .annotation")).to_have_text("nothing for 1 h 00 min")
    picture(page, "transaction-idle")
    page.reload()
    expect(hide).to_be_checked()
    expect(page.locator("#timeline .annotation")).to_have_count(1)
    with page.expect_request(re.compile(r"/timeline$")):
        hide.uncheck()
    expect(page.locator("#timeline .annotation")).to_have_count(0)
    page.unroute_all(behavior="wait")  # The page goes on asking.


def test_of_two_timelines_the_one_that_was_asked_for_last_is_shown(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    txn_id = producer.begin()
    producer.produce("a", txn_id=txn_id)
    address = f"/transactions/{txn_id}/timeline"
    figure = page.request.get(address, headers={"Accept": "application/json"}).json()
    held = hold(page, re.compile(r"/timeline$"))
    hidden = figure | {"idle": [[0.25, 0.5, "1 h 00 min"]]}
    page.route("**/timeline?idle=hidden", lambda route: route.fulfill(json=hidden))
    with page.expect_request(re.compile(r"/timeline$")):
        page.goto(f"/transactions/{txn_id}")
    hide = page.get_by_label("Hide idle time")
    page.evaluate("document.querySelector('[data-idle]').hidden = false")
    hide.check()
    annotation = page.locator("#timeline .annotation")
    expect(annotation).to_have_text("nothing for 1 h 00 min")
    with page.expect_request_finished(lambda request: request.url.endswith("/timeline")):
        held.pop().fulfill(json=figure | {"idle": [[0.25, 0.5, "2 h 00 min"]]})
    page.evaluate("new Promise((drawn) => setTimeout(drawn))")
    expect(annotation).to_have_text("nothing for 1 h 00 min")


_REFRESH = "import('/static/js/regions.js').then(({ refreshAll }) => refreshAll())"


def test_who_pages_on_is_not_put_back_by_what_was_asked_for_before(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    txn_id = producer.begin()
    producer.produce(*(f"m{number}" for number in range(15)), txn_id=txn_id)
    page.goto(f"/transactions/{txn_id}")
    messages = page.locator("#messages")
    onward = messages.get_by_role("button", name="Next messages")
    expect(onward).to_be_visible()
    address = re.compile(r"/messages$")
    asked = hold_first(page, address)
    with page.expect_request(address):
        page.evaluate(_REFRESH)
    onward.click()
    expect(messages.locator("tbody tr")).to_have_count(5)
    with page.expect_request_finished(lambda request: address.search(request.url) is not None):
        asked[0].continue_()
    page.evaluate("new Promise((drawn) => setTimeout(drawn))")
    expect(messages.locator("tbody tr")).to_have_count(5, timeout=1)


def test_who_chooses_all_before_they_are_counted_is_told_their_number_then(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    for _ in range(26):
        producer.begin()
    page.goto("/transactions?q=state:open")
    counting = re.compile("/transactions/count")
    page.route(counting, lambda route: route.abort())
    page.locator("[data-select-page]").check()
    everything = page.get_by_role("button", name="Select all open that match")
    expect(everything).to_be_visible()
    page.unroute(counting)
    assert all("Failed to load" in each for each in watched.take_complaints())
    held = hold(page, counting)
    page.locator("[data-select-none]").click()
    with page.expect_request(counting):
        page.locator("[data-select-page]").check()
    everything.click()
    selected = page.locator("[data-selected]")
    expect(selected).to_have_text("All open matching selected")
    held.pop().fulfill(json={"count": 1234, "limit": 10000})
    expect(selected).to_have_text("All 1,234 open matching selected")


#: Two frames at one moment, before the second of which the timeline was read; and three seconds on.
_TELL = """
async () => {
  const { live } = await import("/static/js/live.js");
  const now = performance.now();
  performance.now = () => now;
  for (const detail of [{}, {}]) live.dispatchEvent(new CustomEvent("delta", { detail }));
}
"""
_GO_ON = """
async () => {
  const { live } = await import("/static/js/live.js");
  const later = performance.now() + 3000;
  performance.now = () => later;
  live.dispatchEvent(new Event("tick"));
}
"""


def test_what_comes_right_after_the_timeline_was_read_is_not_left_until_its_bars_have_grown(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    page.goto(f"/transactions/{producer.begin()}")
    expect(page.locator("#timeline .main-svg").first).to_be_visible()
    page.evaluate(_TELL)
    with page.expect_request("**/timeline"):
        page.evaluate(_GO_ON)

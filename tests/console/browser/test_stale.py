"""A page that cannot be read again says so, says why and since when, and recovers by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.console.browser.accessibility import keep
from tests.console.browser.conftest import Producer, Watched, hold
from tests.server import Served
from txnconsole.local.postgres import EmbeddedPostgres

pytestmark = [pytest.mark.browser, pytest.mark.timeout(480)]

#: What a form says that is filled in again.
_UNSENT = "What you typed was not sent"


def live(page: Page) -> Locator:
    return page.locator("[data-live]")


def notice(page: Page) -> Locator:
    return page.locator("#stale")


def expect_state(page: Page, state: str) -> None:
    expect(live(page)).to_have_attribute("data-state", state)


def only_the_network_complained(watched: Watched) -> None:
    said = watched.take_complaints()
    own = [each for each in said if not re.search("Failed to load resource|Failed to fetch", each)]
    assert own == []


def sign_out(page: Page) -> None:
    page.goto("/audit")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("User name")).to_be_visible()


def sign_in(page: Page, server: Served) -> None:
    page.get_by_label("User name").fill(server.user)
    page.get_by_label("Password").fill(server.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: "/login" not in address)


def test_what_fails_to_be_read_again_is_told_with_its_reason(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    expect_state(page, "live")
    body = '<div class="fault"><div><span data-says>broker-1 is away.</span></div></div>'
    answers = {
        "503": lambda route: route.fulfill(status=503, content_type="text/html", body=body),
        "500": lambda route: route.fulfill(status=500, headers={"X-Request-ID": "r-17"}),
        "gone": lambda route: route.abort(),
    }
    says = {
        "503": "A part of this page is not up to date broker-1 is away.",
        "500": "The server failed, and has logged it. Request r-17.",
        "gone": "The server cannot be reached.",
    }
    for name, answer in answers.items():
        page.route("**/?part=now", answer)
        expect(notice(page)).to_contain_text(says[name])
        expect(notice(page)).to_contain_text(re.compile(r"Shown as read at \d\d:\d\d:\d\d UTC"))
        expect_state(page, "stale")
        expect(page.locator("#now")).to_have_attribute("data-stale", "")
        if name == "503":
            keep(watched.page, "stale-part")
    # The page asks again by itself too, and has nothing to try once that is answered.
    held = hold(page, "**/?part=now")
    notice(page).get_by_role("button", name="Try again").click()
    page.route("**/?part=now", lambda route: route.continue_())
    for route in held:
        route.continue_()
    expect(notice(page)).to_be_hidden()
    expect_state(page, "live")
    only_the_network_complained(watched)


def test_charts_that_stand_still_are_told_too(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    expect(page.locator("#throughput .main-svg").first).to_be_visible()
    page.route("**/trends?*", lambda route: route.fulfill(status=500))
    expect(notice(page)).to_contain_text("The server failed")
    expect(page.locator("#trends")).to_have_attribute("data-stale", "")
    page.unroute("**/trends?*")
    expect(notice(page)).to_be_hidden()
    only_the_network_complained(watched)


def test_charts_of_a_log_that_could_not_be_loaded_are_asked_for_again(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    producer.produce("first")
    page.route("**/log/figures", lambda route: route.fulfill(status=503))
    page.goto(producer.log)
    expect(page.locator("#positions")).to_contain_text("could not be loaded")
    page.unroute("**/log/figures")
    expect(page.locator("#positions .main-svg").first).to_be_visible()
    only_the_network_complained(watched)


def test_what_is_asked_for_and_fails_is_told_where_it_was_asked_for(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    txn_id = producer.begin()
    page.route("**/lineage", lambda route: route.fulfill(status=500))
    page.goto(f"/transactions/{txn_id}")
    expect(page.locator("#lineage")).to_contain_text("The server failed")
    page.unroute("**/lineage")
    page.locator("#lineage").get_by_role("button", name="Try again").click()
    expect(page.locator("#lineage")).to_contain_text("Nothing")
    page.locator("#region").get_by_role("button", name="Abort").click()
    dialog = page.locator("#dialog")
    dialog.get_by_label("Reason").fill("left hanging by a dead producer")
    page.route("**/abort", lambda route: route.abort())
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(dialog.locator(".fault")).to_contain_text("The server cannot be reached.")
    expect(dialog.get_by_label("Reason")).to_have_value("left hanging by a dead producer")
    page.unroute("**/abort")
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#region")).to_contain_text("Aborted")
    only_the_network_complained(watched)


def test_a_page_of_a_partition_whose_topic_is_deleted_says_that_it_is_gone(
    watched: Watched, producer: Producer
) -> None:
    page = watched.page
    page.goto(f"/topics/{producer.topic}/partitions/0")
    expect_state(page, "live")
    with producer.server.client("admin") as admin:
        admin.delete(f"/topics/{producer.topic}").raise_for_status()
    expect(notice(page)).to_contain_text("Not there any more")
    expect(notice(page)).to_contain_text(f"There is no topic {producer.topic}")
    only_the_network_complained(watched)


def test_a_full_process_is_polled_and_its_stream_taken_up_again(watched: Watched) -> None:
    page = watched.page
    stream = 'event: bye\ndata: {"reason": "full"}\n\n'

    def full(route: Route) -> None:
        if route.request.headers.get("accept") == "text/event-stream":
            route.fulfill(status=200, content_type="text/event-stream", body=stream)
        else:
            route.continue_()

    page.route("**/live?*", full)
    page.goto("/")
    expect_state(page, "polling")
    expect(notice(page)).to_be_hidden()
    page.unroute("**/live?*")
    expect_state(page, "live")


def test_who_is_signed_out_is_told_and_goes_on_after_signing_in(
    context: BrowserContext, server: Served
) -> None:
    watched, other = Watched(context.new_page()), context.new_page()
    page = watched.page
    page.goto("/topics")
    expect_state(page, "live")
    sign_out(other)
    expect(notice(page)).to_contain_text("You are signed out")
    expect_state(page, "ended")
    expect(notice(page).get_by_role("link", name="Sign in")).to_have_attribute(
        "href", "/login?next=%2Ftopics"
    )
    keep(watched.page, "stale-signed-out")
    sign_in(other, server)
    expect_state(page, "live")
    expect(notice(page)).to_be_hidden()
    only_the_network_complained(watched)


def test_what_was_typed_into_a_dialog_outlives_the_session(
    context: BrowserContext, server: Served, producer: Producer
) -> None:
    watched, other = Watched(context.new_page()), context.new_page()
    page, dialog = watched.page, watched.page.locator("#dialog")
    page.goto(f"/transactions/{producer.begin()}")
    page.locator("#region").get_by_role("button", name="Abort").click()
    dialog.get_by_label("Reason").fill("left hanging by a dead producer")
    sign_out(other)
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(dialog.locator(".fault")).to_contain_text("Your session has ended.")
    dialog.get_by_role("link", name="Sign in").click()
    sign_in(page, server)
    expect(dialog.get_by_label("Reason")).to_have_value("left hanging by a dead producer")
    expect(dialog).to_contain_text(_UNSENT)
    keep(watched.page, "unsent-dialog")
    # Signed in again elsewhere, so that the form is of a session before.
    sign_out(other)
    sign_in(other, server)
    page.evaluate("window.isOld = true")
    dialog.get_by_role("button", name="Abort transaction").click()
    page.wait_for_function("() => !window.isOld")
    expect(dialog).to_contain_text(_UNSENT)
    expect(dialog.get_by_label("Reason")).to_have_value("left hanging by a dead producer")
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(dialog).to_be_hidden()
    page.reload()
    expect(page.locator("main")).to_contain_text("left hanging by a dead producer")
    expect(dialog).to_be_hidden()
    only_the_network_complained(watched)


def test_what_was_typed_into_a_page_outlives_the_session_and_is_no_other_users(
    context: BrowserContext, server: Served
) -> None:
    watched, other = Watched(context.new_page()), context.new_page()
    page = watched.page
    page.goto("/alerts/rules/new?kind=held_back")
    page.get_by_label("Name", exact=True).fill("Kept while signed out")
    page.get_by_label("Severity").select_option("critical")
    page.get_by_label("Evaluate this rule").uncheck()
    sign_out(other)
    page.get_by_role("button", name="Create rule").click()
    expect(page.locator("main")).to_contain_text("was not done")
    sign_in(page, server)

    def expect_as_it_was() -> None:
        expect(page.locator("main")).to_contain_text(_UNSENT)
        expect(page.get_by_label("Name", exact=True)).to_have_value("Kept while signed out")
        expect(page.get_by_label("Severity")).to_have_value("critical")
        expect(page.get_by_label("Evaluate this rule")).not_to_be_checked()

    expect_as_it_was()
    keep(watched.page, "unsent-page")
    sign_out(other)
    sign_in(other, server)
    page.get_by_role("button", name="Create rule").click()
    page.get_by_role("link", name="Back to the form").click()
    expect_as_it_was()
    # A page that has been seen once more, and one of another user, have it no more.
    page.reload()
    expect(page.get_by_label("Name", exact=True)).not_to_have_value("Kept while signed out")
    page.get_by_label("Name", exact=True).fill("Of the first user")
    sign_out(other)
    page.get_by_role("button", name="Create rule").click()
    expect(page.locator("main")).to_contain_text("was not done")
    kept = page.evaluate("sessionStorage.unsent")
    page.evaluate("(kept) => sessionStorage.unsent = kept", kept.replace(server.user, "another"))
    sign_in(page, server)
    page.wait_for_function("() => !sessionStorage.unsent")
    expect(page.get_by_label("Name", exact=True)).not_to_have_value("Of the first user")
    only_the_network_complained(watched)


def test_who_has_lost_a_role_is_not_told_to_sign_in(watched: Watched) -> None:
    """And gets the page anew, with the rights of then, once the server answers them again."""
    page = watched.page
    stream = 'retry: 2000\n\nevent: bye\ndata: {"reason": "not permitted"}\n\n'
    said = '{"code": "Forbidden", "message": "This needs the permission topic.read."}'

    def refuse(route: Route) -> None:
        if route.request.headers.get("accept") == "text/event-stream":
            route.fulfill(status=200, content_type="text/event-stream", body=stream)
        else:
            route.fulfill(status=403, content_type="application/json", body=said)

    page.route("**/live?*", refuse)
    page.goto("/")
    page.evaluate("window.isOld = true")
    expect(notice(page)).to_contain_text("Not permitted any more")
    expect(notice(page).get_by_role("link", name="Sign in")).to_be_hidden()
    expect_state(page, "stale")
    expect(notice(page)).to_contain_text("permission topic.read")
    keep(watched.page, "stale-not-permitted")
    page.unroute("**/live?*")
    expect_state(page, "live")
    assert page.evaluate("window.isOld") is None
    only_the_network_complained(watched)


def test_a_server_that_is_killed_is_told_and_nothing_is_lost(
    watched: Watched, producer: Producer, server: Served
) -> None:
    page = watched.page
    hanging = producer.begin()
    producer.produce("held", txn_id=hanging)
    page.goto(producer.log)
    expect_state(page, "live")
    with server.killed():
        expect(notice(page)).to_contain_text("The server cannot be reached.")
        expect_state(page, "stale")
        expect(page.locator('[data-figure="last"]')).to_have_text("0")
        keep(watched.page, "stale-killed")
    producer.produce("after")
    expect_state(page, "live")
    expect(notice(page)).to_be_hidden()
    expect(page.locator('[data-figure="last"]')).to_have_text("1")
    expect(page.locator('#grid .cell[data-offset="1"]')).to_have_attribute("data-v", "held")
    producer.end(hanging, "commit")
    expect(page.locator('[data-figure="held"]')).to_have_text("0")
    only_the_network_complained(watched)


@contextmanager
def without(postgres: EmbeddedPostgres, database: str) -> Iterator[None]:
    """No connection to a database lives or can be made during the block."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
            [database],
        )
        try:
            yield
        finally:
            connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")


def test_a_broker_that_is_away_fails_its_own_parts_and_no_page(
    watched: Watched, producer: Producer, postgres: EmbeddedPostgres
) -> None:
    """Both partitions of a topic are on different brokers: one page fails, the other lives."""
    page = watched.page
    producer.topic = producer.server.topic(partitions=2)
    producer.subscribe("reader")
    producer.produce("a", txn_id=producer.begin())
    with producer.server.client("admin") as client:
        brokers = client.get(f"/topics/{producer.topic}").raise_for_status().json()["brokers"]
    away = brokers.index("broker-2")
    here = f"/topics/{producer.topic}/partitions/{away}"
    page.goto(f"{here}/log")
    expect_state(page, "live")
    with without(postgres, "served_broker_2"):
        expect(notice(page)).to_contain_text("This page is not up to date")
        expect_state(page, "stale")
        keep(watched.page, "error-log")
        whole = ["/", "/topics", f"/topics/{producer.topic}", "/subscriptions", "/held-back"]
        for address in whole:
            answer = page.goto(address)
            assert answer is not None
            assert answer.status == 200, address
            away_or_late = re.compile("broker-2|given up")
            expect(page.locator("main")).to_contain_text(away_or_late)
            keep(watched.page, f"error-{address.strip('/').split('/')[0] or 'overview'}")
        history = page.context.new_page()
        history.goto(f"{here}/history")
        expect(history.locator("#history")).to_have_text("The history cannot be read now.")
        expect(history.get_by_text("broker-2 cannot serve this now")).to_have_count(1)
        answer = page.goto(here)
        assert answer is not None
        assert answer.status == 503
        expect(page.locator("main")).to_contain_text("Try again")
        keep(watched.page, "error-partition")
    # Nobody does anything: both pages ask again by themselves.
    expect(page.locator("h1")).to_contain_text(f"partition {away}")
    expect_state(page, "live")
    expect(history.locator("#history .main-svg").first).to_be_visible()
    only_the_network_complained(watched)

"""Chromium on the running product. Whatever a page says on its console fails the test."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    Route,
    expect,
    sync_playwright,
)

from tests.console.browser.pages import PageRow
from tests.server import Served, login_form
from tests.support.chromium import CHROMIUM, FLAGS

#: Counts what the policy blocked; runs in each page before anything else.
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(event.violatedDirective + " " + event.blockedURI), true);
window.shift = 0;
window.moved = [];
new PerformanceObserver((list) => {
  for (const { hadRecentInput, value, sources } of list.getEntries()) {
    if (hadRecentInput) continue;
    window.shift += value;
    for (const { node, previousRect: was, currentRect: is } of sources) {
      const name = node?.id || node?.className || node?.nodeName;
      window.moved.push(`${name} (${was.x},${was.y}) to (${is.x},${is.y})`);
    }
  }
}).observe({ type: "layout-shift", buffered: true });
"""

#: A page that a service worker hands on counts its bytes as they are unpacked.
NO_WORKER = """
if (navigator.serviceWorker) navigator.serviceWorker.register = () => new Promise(() => {});
"""


#: Thirty hours of three topics, the last of which wrote nothing for a while, and of two owners.
_FIGURES = """
from datetime import UTC, datetime, timedelta
from txnconsole.runs.models import Figure

rows = []
for hour in range(30):
    at = datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=hour)
    for n, name in enumerate(["public/default/flights", "public/default/delays", "x/y/rare"]):
        if n == 2 and hour % 7:
            continue
        messages = (9_000 - 2_500 * n) * (2 + hour % 5)
        rows.append(Figure(at=at, dimension="topic", resolution="hour", name=name,
            messages=messages, batches=messages // 10, bytes=messages * 120,
            committed=messages // 20, aborted=messages // 400 * (hour % 3), held_ms=0,
            begin_commit_p50=40 + hour, begin_commit_p95=900 + 20 * hour, begin_commit_p99=4_000,
            commit_visible_p50=5, commit_visible_p95=30 + n, commit_visible_p99=90 + hour))
    for n, name in enumerate(["flights-feed", "delays"]):
        rows.append(Figure(at=at, dimension="owner", resolution="hour", name=name, messages=0,
            batches=0, bytes=0, committed=300, aborted=7, held_ms=(n + 1) * 61_000 * (hour % 4)))
Figure.objects.bulk_create(rows)
"""
#: A finished audit that found more than its page lists.
_RUN = """
from django.db.models.functions import Now
from txnconsole.runs.models import PipelineRun

finding = {"rule": "gap", "topic": "public/default/orders", "partition": 3, "log": "marker",
    "offset": 17, "txn_id": "3:42", "evidence": {"begins_at": 17, "previous_ends_at": 15}}
offsets = {f"public/default/orders:{n}": {"from": 5, "to": 90, "stable": 89} for n in range(400)}
print(PipelineRun.objects.create(kind="audit", parameters={}, origin="console", who="eve",
    state="done", found=True, started_at=Now(), ended_at=Now(), stage_done=3, stage_total=3,
    figures={"rows_in": 12345, "rows_out": 1000, "offsets": offsets},
    result={"holds": False, "found": {"gap": 1000}, "rules": {"gap": "An entry that is missing."},
        "findings": [finding | {"offset": n} for n in range(1000)]}).pk)
"""

#: Milliseconds. Whether a page comes to say something is asked, not how soon: that is for the
#: benchmarks, and the machine may be three times as slow as this one, and have other work.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)


class Watched:
    """A page, and everything it complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.add_init_script(_WATCH)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def violations(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.violations")
        return found

    def complaints_of(self, row: PageRow) -> list[str]:
        """What the page said on its console and what the policy blocked, since the last call."""
        found = self.take_complaints() + self.violations()
        of_status = f"Failed to load resource: the server responded with a status of {row.status}"
        return [f"console: {each}" for each in found if not each.startswith(of_status)]

    def take_complaints(self) -> list[str]:
        """What the pages have said since the last call; it fails no test by itself any more."""
        found, self.complaints = self.complaints, []
        return found


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Ends with the module: while it lives, an event loop runs in the thread of the tests."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """One Chromium for a module's tests; skipped where there is none, but never in CI."""
    if not CHROMIUM.exists() and os.environ.get("CI") != "true":
        pytest.skip(f"{CHROMIUM} is missing")
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture
def options() -> dict[str, Any]:
    """What the browser is like; a test overrides it by parametrizing."""
    return {"viewport": {"width": 1440, "height": 1000}}


@pytest.fixture
def context(chromium: Browser, server: Served, options: dict[str, Any]) -> Iterator[BrowserContext]:
    """A browser in which the administrator is signed in."""
    with signed_in(chromium, server, server.user, server.password, **options) as context:
        yield context


@contextmanager
def signed_in(
    chromium: Browser, server: Served, user: str, password: str, **options: Any
) -> Iterator[BrowserContext]:
    """A browser of its own in which a user is signed in, without a service worker unless the
    options allow one."""
    context = chromium.new_context(base_url=server.url, **options)
    context.set_default_timeout(PATIENCE)
    if options.get("service_workers") != "allow":
        context.add_init_script(NO_WORKER)
    sign_in(context, user, password)
    yield context
    context.close()


def sign_in(context: BrowserContext, user: str, password: str) -> None:
    """Send the form, without a page: tests/console/browser/test_stale.py fills it in."""
    form = login_form(context.request.get("/login").text(), user, password)
    answer = context.request.post("/login", form=form)
    assert answer.ok
    assert "/login" not in answer.url


@pytest.fixture
def watched(context: BrowserContext) -> Iterator[Watched]:
    """A page that must stay silent and break no policy."""
    watched = Watched(context.new_page())
    yield watched
    assert watched.complaints == []
    assert watched.violations() == []


def hold(page: Page, address: str | re.Pattern[str]) -> list[Route]:
    """Keep the page's requests to an address waiting, in the list that is answered."""
    held: list[Route] = []

    def keep(route: Route) -> None:
        held.append(route)

    page.route(address, keep)
    return held


def hold_first(page: Page, address: str | re.Pattern[str]) -> list[Route]:
    """As :func:`hold`, of the first request; later ones, which come into the list too, go on."""
    asked: list[Route] = []

    def keep(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    page.route(address, keep)
    return asked


def stop_clock(page: Page) -> None:
    """Let no more time pass on a page whose clock is installed: half a minute passes at once, which
    gives no request up, and none after it, however slow the machine is."""
    now: float = page.evaluate("Date.now()")
    page.clock.pause_at(now / 1000 + 30)


class Producer:
    """A program that speaks to the product over REST, on a topic of its own."""

    def __init__(self, server: Served, client: httpx.Client, topic: str) -> None:
        self.server = server
        self.client = client
        self.topic = topic
        self.begun: list[str] = []

    @property
    def log(self) -> str:
        return f"/topics/{self.topic}/partitions/0/log"

    def begin(self, timeout_ms: int = 600_000) -> str:
        answer = self.client.post(
            "/transactions", json={"timeout_ms": timeout_ms, "client": "test-program"}
        )
        self.begun.append(str(answer.raise_for_status().json()["txn_id"]))
        return self.begun[-1]

    def produce(self, *payloads: str, txn_id: str | None = None) -> None:
        messages = [{"key": f"k-{text}", "payload": text} for text in payloads]
        self.client.post(
            f"/topics/{self.topic}/partitions/0/messages",
            json={"txn_id": txn_id, "messages": messages},
        ).raise_for_status()

    def subscribe(self, name: str) -> None:
        with self.server.client("admin") as client:
            client.put(f"/topics/{self.topic}/subscriptions/{name}", json={}).raise_for_status()

    def end(self, txn_id: str, action: str) -> None:
        self.client.post(
            f"/transactions/{txn_id}/{action}", json={"wait_ms": 30_000}
        ).raise_for_status()


@pytest.fixture
def producer(server: Served) -> Iterator[Producer]:
    topic = server.topic()
    with server.client("producer", user="flights-feed") as client:
        made = Producer(server, client, topic)
        yield made
        for txn_id in made.begun:  # Other tests' pages list what is left open.
            client.post(f"/transactions/{txn_id}/abort", json={})


@pytest.fixture(scope="session")
def figures(server: Served) -> None:
    """What the job ``metrics`` has computed; the page of figures is full of it from here on."""
    server.manage("shell", "-c", _FIGURES)


@pytest.fixture(scope="session")
def jobs(server: Served) -> dict[str, str]:
    """The numbers of a pipeline run and of a bulk abort that have ended."""
    topic = server.topic()
    with server.client("producer", user="of-the-jobs") as client:
        writer = Producer(server, client, topic)
        opened = len([writer.begin() for _ in range(120)])
    with server.client("operator") as client:
        answer = client.post(
            "/transactions/bulk-abort",
            json={
                "filter": {"owner": "of-the-jobs"},
                "reason": "Left behind.",
                "expected_count": opened,
            },
        )
        job = answer.raise_for_status().json()
    return {"run": server.manage("shell", "-c", _RUN).split()[-1], "job": str(job["id"])}


@pytest.fixture
def addresses(producer: Producer, figures: None, jobs: dict[str, str]) -> dict[str, str]:
    """Names for the addresses of all pages, of things that exist; more than a page lists."""
    producer.topic = producer.server.topic(partitions=60)
    txn_id = producer.begin()
    producer.produce("hidden", txn_id=txn_id)
    everywhere = [f"{producer.topic}:{number}" for number in range(60)]
    producer.client.post(
        f"/transactions/{txn_id}/partitions", json={"partitions": everywhere}
    ).raise_for_status()
    for _ in range(6):
        elsewhere = Producer(producer.server, producer.client, producer.server.topic())
        elsewhere.produce("hidden", txn_id=txn_id)
    producer.subscribe("reader")
    return {"topic": producer.topic, "txn": txn_id, "subscription": "reader"} | jobs

"""What each page costs a real browser: first paint, long tasks, bytes, shift; over the same system.

Budgets of design/console.md §7. Times are of Chromium in software rendering, beside whatever else
the machine does: they are reported, and decide no test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import BrowserContext, Page, ViewportSize, sync_playwright

from benchmarks.report import Row, at_most
from tests.console.browser.conftest import NO_WORKER
from tests.console.browser.pages import PAGES, PageRow
from tests.support.chromium import CHROMIUM, FLAGS
from tests.support.ports import free_port
from txnconsole.local.address import HOST, loopback

_PAINT_MS, _LONG_TASK_MS, _SHIFT = 1_000, 100, 0.02
#: A page is watched for so long after it has been drawn.
_WATCHED_MS = 5_000
_START_SECONDS = 120
_VIEWPORT = ViewportSize(width=1440, height=1000)
_OBSERVE = """
window.seen = { paint: 0, shift: 0, tasks: [], blocked: [] };
const watch = (type, note) => new PerformanceObserver((list) => list.getEntries().forEach(note))
  .observe({ type, buffered: true });
watch("paint", ({ name, startTime }) => {
  if (name === "first-contentful-paint") seen.paint = startTime;
});
watch("layout-shift", ({ hadRecentInput, value }) => {
  if (!hadRecentInput) seen.shift += value;
});
watch("longtask", ({ startTime, duration }) => seen.tasks.push([startTime, duration]));
addEventListener("securitypolicyviolation", (event) => seen.blocked.push(event.blockedURI), true);
"""
_BYTES = """
() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .reduce((sum, entry) => sum + entry.encodedBodySize, 0)
"""


def rows(names: dict[str, str], wanted: list[str]) -> list[Row]:
    """Four rows of each page, visited with an empty cache; ``wanted`` names some."""
    found = []
    session = _session()  # Before Playwright: its loop runs in this thread, and Django asks none.
    with _web() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for row in PAGES:
            if row.status == 200 and (not wanted or row.name in wanted):
                context = browser.new_context(base_url=url, viewport=_VIEWPORT)
                context.add_cookies([{"name": "sessionid", "value": session, "url": url}])
                found += _visited(context, row, names)
                context.close()
        browser.close()
    return found


def _visited(context: BrowserContext, row: PageRow, names: dict[str, str]) -> list[Row]:
    context.add_init_script(NO_WORKER)
    context.add_init_script(_OBSERVE)
    page = context.new_page()
    page.goto(row.address.format(**names), wait_until="load")
    page.locator(row.ready).first.wait_for(timeout=60_000)
    drawn: float = page.evaluate("performance.now()")
    page.wait_for_timeout(_WATCHED_MS)
    seen = page.evaluate("seen")
    if seen["blocked"]:
        raise RuntimeError(f"{row.name}: the policy blocked {seen['blocked']}")
    later = [took for begun, took in seen["tasks"] if begun > drawn]
    return [
        at_most(f"{row.name}: first contentful paint, ms", seen["paint"], _PAINT_MS),
        at_most(f"{row.name}: longest task once drawn, ms", max(later, default=0), _LONG_TASK_MS),
        at_most(f"{row.name}: kB, cold", _bytes(page) / 1000, row.transfer / 1000),
        at_most(f"{row.name}: layout shift, thousandths", seen["shift"] * 1000, _SHIFT * 1000),
    ]


def _bytes(page: Page) -> int:
    sent: int = page.evaluate(_BYTES)
    return sent


def _session() -> str:
    """The key of a session in which the administrator is signed in."""
    client = Client(SERVER_NAME=HOST)
    client.force_login(User.objects.get(username="admin"))
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@contextmanager
def _web() -> Iterator[str]:
    """A web server as the product runs it, on the databases of this process."""
    port = free_port()
    url = f"http://{HOST}:{port}"
    command = [
        *(sys.executable, "-m", "granian", "--interface", "asginl", "txnconsole.asgi:application"),
        *("--host", HOST, "--port", str(port), "--http", "1", "--no-ws"),
        *("--workers-kill-timeout", "3", "--no-access-log", "--log-level", "warning"),
    ]
    log = Path(os.environ["TXNCONSOLE_DATA"]) / "web.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        try:
            _await_ready(url, log)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _await_ready(url: str, log: Path) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while True:
        try:
            loopback.open(f"{url}/healthz", timeout=10).close()
            return
        except (urllib.error.URLError, ConnectionError) as error:
            if time.monotonic() > give_up:
                raise RuntimeError(f"The server did not start: {log.read_text()[-800:]}") from error
            time.sleep(0.2)

"""Open pages in Chromium, watched while the demo's transactions come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import BrowserContext, CDPSession, sync_playwright

from benchmarks.http.product import Product
from benchmarks.live.demo import TOPIC
from benchmarks.report import Row, at_most
from tests.console.browser.conftest import NO_WORKER, sign_in
from tests.support.chromium import CHROMIUM, FLAGS
from txnconsole.local.address import HOST

_PAGES = {
    "overview": ("/", "#throughput .main-svg"),
    "log": (f"/topics/{TOPIC}/partitions/0/log", "#spans .main-svg"),
    "transactions": ("/transactions?q=state:open", "#list"),
    "held back": ("/held-back?sort=longest", "#h-held"),
    "partition": (f"/topics/{TOPIC}/partitions/0", "h1"),
}
#: A page is left alone until it has settled, then watched.
_SETTLE_MS, _WATCHED_MS = 5_000, 20_000
_LONG_TASK_MS, _TASK_PERCENT, _SCRIPT_PERCENT = 100, 20, 5
_FRAMES_PER_SECOND, _FRAME_BYTES = 1, 1_000
_OBSERVE = """
window.tasks = [];
new PerformanceObserver((list) => list.getEntries().forEach(({ startTime, duration }) =>
  tasks.push([startTime, duration]))).observe({ type: "longtask", buffered: true });
"""


def rows(product: Product) -> list[Row]:
    """Five rows of each page."""
    found = []
    with _signed_in(product) as context:
        for name, (address, ready) in _PAGES.items():
            found += _watched(context, name, address, ready)
    return found


@contextmanager
def _signed_in(product: Product) -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(
            base_url=f"http://{HOST}:{product.port}", viewport={"width": 1440, "height": 1000}
        )
        context.add_init_script(NO_WORKER)
        context.add_init_script(_OBSERVE)
        sign_in(context, product.user, product.password)
        yield context
        browser.close()


def _watched(context: BrowserContext, name: str, address: str, ready: str) -> list[Row]:
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
    session.send("Performance.enable")
    session.send("Network.enable")
    frames: list[int] = []
    session.on("Network.eventSourceMessageReceived", lambda event: frames.append(_size(event)))
    page.goto(address, wait_until="load")
    page.locator(ready).first.wait_for(timeout=60_000)
    page.wait_for_timeout(_SETTLE_MS)
    frames.clear()
    begun: float = page.evaluate("performance.now()")
    before = _spent(session)
    page.wait_for_timeout(_WATCHED_MS)
    after = _spent(session)
    tasks: list[tuple[float, float]] = page.evaluate("tasks")
    page.close()
    longest = max((took for at, took in tasks if at > begun), default=0.0)
    seconds = _WATCHED_MS / 1000
    share = {key: 100 * (after[key] - before[key]) / seconds for key in after}
    return [
        at_most(f"{name}: longest task, ms", longest, _LONG_TASK_MS),
        at_most(f"{name}: main thread, % of a core", share["TaskDuration"], _TASK_PERCENT),
        at_most(f"{name}: scripts, % of a core", share["ScriptDuration"], _SCRIPT_PERCENT),
        at_most(f"{name}: frames a second", len(frames) / seconds, _FRAMES_PER_SECOND),
        at_most(f"{name}: bytes a frame", sum(frames) / max(1, len(frames)), _FRAME_BYTES),
    ]


def _size(event: dict[str, str]) -> int:
    return len(event["data"].encode())


def _spent(session: CDPSession) -> dict[str, float]:
    """Seconds of the main thread so far."""
    answer = session.send("Performance.getMetrics")
    wanted = ("TaskDuration", "ScriptDuration")
    return {each["name"]: each["value"] for each in answer["metrics"] if each["name"] in wanted}

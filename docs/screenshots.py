"""Takes the screenshots of the documentation: ``make docs``.

Starts a product of its own with the flights demo on a data directory that is thrown away, lets it
run for a while, and takes each page. With ``--url`` it takes them from a product that runs already
(its login is in ``$TXNCONSOLE_DATA``). Nothing is staged: the pages are those of the moment.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.chromium import CHROMIUM, FLAGS
from tests.support.ports import free_port
from txnconsole.environment import data_directory
from txnconsole.local.address import loopback

OUTPUT = Path(__file__).parent / "screenshots"
#: Seconds that the demo runs before the first picture, and that a live page is watched for.
WARM_SECONDS, WATCH_SECONDS = 150, 12
#: Offsets that a partition must hide to be worth a picture, and the wait for one.
HIDDEN, WAIT_SECONDS = 100, 600
READY_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Shot:
    """A page: ``{log}`` and ``{txn}`` are the partition that is held back most and its holder, of
    the coordinator ``{tc}``; ``ready`` is visible when it has drawn, ``keys`` are pressed before
    the picture."""

    name: str
    address: str
    ready: str = "h1"
    scheme: str = "light"
    keys: tuple[str, ...] = ()


SHOTS = (
    Shot("overview", "/?range=15m", "#throughput .main-svg"),
    Shot("overview-dark", "/?range=15m", "#throughput .main-svg", "dark"),
    Shot("partition-log", "{log}", "#spans .main-svg"),
    Shot("transactions", "/transactions"),
    Shot("transaction", "/transactions/{txn}"),
    Shot("coordinator", "/coordinators/{tc}"),
    Shot("alerts", "/alerts"),
    Shot("palette", "/topics", keys=("Control+k", "f", "l", "i")),
    Shot("settings-tokens", "/settings/tokens"),
)


def main() -> None:
    """Take every picture, from the product that ``--url`` names or from one of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a product that runs already")
    parser.add_argument("--only", nargs="*", help="names of pictures")
    arguments = parser.parse_args()
    OUTPUT.mkdir(exist_ok=True)
    shots = [shot for shot in SHOTS if not arguments.only or shot.name in arguments.only]
    if arguments.url:
        _take(arguments.url, data_directory(), shots)
        return
    with _product() as (url, data):
        _take(url, data, shots)


@contextmanager
def _product() -> Iterator[tuple[str, Path]]:
    """A product and its demo that live as long as the block."""
    with tempfile.TemporaryDirectory(prefix="txnconsole-docs-") as directory:
        data = Path(directory)
        port = str(free_port())
        url = f"http://127.0.0.1:{port}"
        environment = dict(os.environ) | {"TXNCONSOLE_DATA": directory, "PORT": port}
        serve = [sys.executable, "-m", "txnconsole.local", "serve"]
        product = subprocess.Popen(serve, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
        demo = None
        try:
            _await_ready(url, product)
            tokens = json.loads((data / "login.json").read_text())["tokens"]
            demo = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "txnconsole.demo", "--url", url],
                env=environment | {"TXNCONSOLE_TOKEN": tokens["demo"]},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(WARM_SECONDS)
            yield url, data
        finally:
            for process in (demo, product):
                if process is not None:
                    process.send_signal(signal.SIGTERM)
                    process.wait(60)


def _await_ready(url: str, product: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and product.poll() is None:
        try:
            with loopback.open(f"{url}/readyz", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("The product did not become ready; `make serve` shows why.")


def _take(url: str, data: Path, shots: list[Shot]) -> None:
    """Sign in with the login that the product left in its data directory, and take each page."""
    login = json.loads((data / "login.json").read_text())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        state = _signed_in(browser, url, login)
        page = _page(browser, url, state, "light")
        names = _held_back(page)
        page.close()
        for shot in shots:
            page = _page(browser, url, state, shot.scheme)
            page.goto(shot.address.format(**names))
            expect(page.locator(shot.ready).first).to_be_visible(timeout=20_000)
            page.wait_for_timeout((WATCH_SECONDS if ".main-svg" in shot.ready else 1) * 1000)
            for key in shot.keys:
                page.keyboard.press(key)
                page.wait_for_timeout(400)
            page.screenshot(path=OUTPUT / f"{shot.name}.png")
            page.close()
        browser.close()


def _page(browser: Browser, url: str, state: str, scheme: str) -> Page:
    return browser.new_page(
        base_url=url,
        storage_state=json.loads(state),
        viewport={"width": 1440, "height": 1180},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )


def _signed_in(browser: Browser, url: str, login: dict[str, str]) -> str:
    """The cookies of a session."""
    context = browser.new_context(base_url=url)
    page = context.new_page()
    page.goto("/login")
    page.get_by_label("User name").fill(login["user"])
    page.get_by_label("Password").fill(login["password"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")
    state = json.dumps(context.storage_state())
    context.close()
    return state


def _held_back(page: Page) -> dict[str, str]:
    """The log of the partition that hides most from its readers, once it hides enough, and the
    transaction that holds it."""
    page.goto("/")
    page.wait_for_function(
        """(enough) => {
          const cell = document.querySelector("[id^=held-] td");
          return cell && Number(cell.textContent.replaceAll(",", "")) >= enough;
        }""",
        arg=HIDDEN,
        timeout=WAIT_SECONDS * 1000,
    )
    row = page.locator("[id^=held-]").first
    log = row.locator("th a").get_attribute("href") or ""
    holder = row.locator("td a.mono").first.text_content() or ""
    return {"log": log, "txn": holder.strip(), "tc": holder.strip().partition(":")[0]}


if __name__ == "__main__":
    main()

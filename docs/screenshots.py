"""Takes the screenshots of the documentation from the running product, demo included.

Start ``make run``, wait until the overview names a partition that is held back, then ``make
screenshots``. Nothing is staged: the pages are those of the moment.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from txnconsole.environment import data_directory

OUTPUT = Path(__file__).parent / "screenshots"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)
#: Seconds that the live page may run, so that its charts show the product at work.
WATCH_SECONDS = 20
#: Offsets that a partition must hide to be worth a picture, and the wait for one.
HIDDEN, WAIT_SECONDS = 300, 1800


def main() -> None:
    """Sign in with the login that the product left in its data directory, and take each page."""
    arguments = _parse()
    login = json.loads((data_directory() / "login.json").read_text())
    OUTPUT.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        page = browser.new_page(
            base_url=arguments.url,
            viewport={"width": 1440, "height": 1180},
            color_scheme="light",
            reduced_motion="reduce",
        )
        _sign_in(page, login["user"], login["password"])
        page.goto(arguments.page or _held_back(page))
        expect(page.locator("#spans .main-svg").first).to_be_visible()
        page.wait_for_timeout(WATCH_SECONDS * 1000)
        page.screenshot(path=OUTPUT / "partition-log.png")
        browser.close()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    port = os.environ.get("PORT", "8000")
    parser.add_argument("--url", default=f"http://127.0.0.1:{port}")
    parser.add_argument("--page", help="the address of a partition's log; else the most held back")
    return parser.parse_args()


def _sign_in(page: Page, user: str, password: str) -> None:
    page.goto("/login")
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")


def _held_back(page: Page) -> str:
    """The log of the partition that hides most from its readers, once it hides enough."""
    page.wait_for_function(
        """(enough) => {
          const cell = document.querySelector("[id^=held-] td");
          return cell && Number(cell.textContent.replaceAll(",", "")) >= enough;
        }""",
        arg=HIDDEN,
        timeout=WAIT_SECONDS * 1000,
    )
    return page.locator("[id^=held-] th a").first.get_attribute("href") or ""


if __name__ == "__main__":
    main()

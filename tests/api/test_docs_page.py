from __future__ import annotations

import pytest

from tests.server import Served
from tests.support.chromium import CHROMIUM, FLAGS

#: Milliseconds; Swagger draws all operations at once.
_PATIENCE = 120_000

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=False)]


def test_the_contract_can_be_browsed_without_a_network(server: Served) -> None:
    from playwright.sync_api import sync_playwright

    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(_PATIENCE)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((server.url, "data:")) or problems.append(request.url)
            ),
        )
        page.goto(f"{server.url}/api/v1/docs")
        page.get_by_text("Produce a batch of messages").click()
        page.get_by_text("exactly once").first.wait_for()
        title = page.title()
        back = page.get_by_role("link", name="Back to the console").get_attribute("href")
        browser.close()
    assert (title, back) == ("txnconsole API", "/")
    assert problems == []

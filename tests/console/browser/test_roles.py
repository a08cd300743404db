"""What each role gets of every page: the page, or the name of what the role lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser.accessibility import axe
from tests.console.browser.conftest import Producer, Watched, signed_in
from tests.console.browser.pages import PAGES, PageRow
from tests.console.browser.screens import picture
from tests.server import Served
from txnconsole.access.roles import GRANTS, Role

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

_PASSWORD = "correct horse 7"


@pytest.fixture(params=[Role.VIEWER, Role.OPERATOR, Role.CONSUMER])
def role(request: pytest.FixtureRequest) -> Role:
    found: Role = request.param
    return found


@pytest.fixture
def user(server: Served, role: Role) -> str:
    """A person with the role and no other."""
    name = f"walks-as-{role}"
    with server.client("admin") as client:
        given = {"roles": [str(role)], "password": _PASSWORD}
        client.put(f"/users/{name}", json=given).raise_for_status()
    return name


@pytest.fixture
def walker(
    chromium: Browser, server: Served, user: str, options: dict[str, Any]
) -> Iterator[Watched]:
    """A page of a browser in which the person is signed in."""
    with signed_in(chromium, server, user, _PASSWORD, **options) as context:
        yield Watched(context.new_page())


@pytest.mark.parametrize("role", [Role.VIEWER])
def test_a_row_whose_action_is_refused_is_no_higher_than_its_button_and_the_reason(
    walker: Watched, producer: Producer, role: Role
) -> None:
    page = walker.page
    producer.produce("hidden", txn_id=producer.begin())
    for address in ("/snapshots", f"/topics/{producer.topic}/partitions/0", "/pipeline"):
        page.goto(address)
        why = page.locator("td.act .quiet").first
        expect(why).to_contain_text("needs")
        beyond = why.evaluate(
            """(why) => {
                const cell = why.closest("td"), box = cell.getBoundingClientRect();
                const button = cell.querySelector("button").getBoundingClientRect();
                const { top, bottom, height } = why.getBoundingClientRect();
                return { above: button.top - box.top, below: box.bottom - bottom, height };
            }"""
        )
        assert beyond["above"] >= 4, address
        assert beyond["below"] >= 4, address
        assert beyond["height"] < 50, address


def test_a_page_is_shown_or_says_which_right_is_missing(
    walker: Watched, addresses: dict[str, str], producer: Producer, role: Role
) -> None:
    """All pages are asked for; those that are refused, and a few of the others, are looked at."""
    page, wrong = walker.page, {}
    rights = {str(right) for right in GRANTS[role]}
    cookies = {each["name"]: each["value"] for each in page.context.cookies()}
    refused = []
    with httpx.Client(base_url=producer.server.url, cookies=cookies, timeout=60) as client:
        for row in PAGES:
            status = client.get(row.address.format(**addresses)).status_code
            if status == 403:
                refused.append(row)
            elif status != row.status and (status, role) != (404, Role.CONSUMER):
                # A program's owner finds no transaction of another's.
                wrong[row.name] = [f"is answered {status}"]
    for row in refused[:: max(1, len(refused) // 4)]:
        wrong[row.name] = _refusal(walker, row, addresses, rights)
    looked_at = {"overview", "log", "transactions", "alerts", "partition"}
    shown = [row for row in PAGES if row.name in looked_at]
    for row in shown if role is not Role.CONSUMER else []:
        page.goto(row.address.format(**addresses))
        page.locator(row.ready).first.wait_for()
        picture(page, f"{row.name}-{role}")
        wrong[row.name] = axe(page) + walker.complaints_of(row)
    if role is not Role.CONSUMER:
        [row] = (row for row in shown if row.name == "partition")
        page.set_viewport_size({"width": 360, "height": 800})
        page.goto(row.address.format(**addresses))
        page.locator(row.ready).first.wait_for()
        if page.evaluate("document.documentElement.scrollWidth") > 360:
            wrong[row.name].append("scrolls sideways")
    assert {name: found for name, found in wrong.items() if found} == {}


def _refusal(
    walker: Watched, row: PageRow, addresses: dict[str, str], rights: set[str]
) -> list[str]:
    page = walker.page
    page.goto(row.address.format(**addresses))
    missing = page.locator(".lead .mono").first
    expect(page.get_by_role("heading", level=1)).to_have_text("Not permitted")
    found = [f"says {right} is missing"] if (right := missing.inner_text()) in rights else []
    picture(page, f"forbidden-{row.name}", full_page=False)
    said = [each for each in walker.take_complaints() if "status of 403" not in each]
    return found + axe(page) + said + walker.violations()

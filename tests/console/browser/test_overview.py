"""The overview's charts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.console.browser.conftest import Producer, Watched

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("oldest_ms", "timeout_ms", "unit"),
    [(5_000, 60_000, "s"), (175 * 60_000, 600_000, "min"), (26 * 3_600_000, 600_000, "h")],
)
def test_the_axis_of_ages_has_the_unit_of_what_it_shows(
    watched: Watched, oldest_ms: int, timeout_ms: int, unit: str
) -> None:
    """The default timeout is on it too."""

    def with_an_old_one(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        found["oldest"] = [oldest_ms] * len(found["at"])
        found["timeout"] = timeout_ms
        route.fulfill(response=answer, json=found)

    page = watched.page
    page.route("**/trends?*", with_an_old_one)
    page.goto("/")
    page.locator("#oldest").scroll_into_view_if_needed()
    highest = page.locator("#oldest .ytick text").last
    expect(highest).to_have_text(re.compile(rf"\d {unit}$"))


_ROW = re.compile(r'<tr id="held-.*?</tr>', re.DOTALL)


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"viewport": {"width": 1440, "height": 1000}}, [1, 5, 2]),
        # Where all rows would take half of the screen, what they have taken once is kept.
        ({"viewport": {"width": 390, "height": 844}}, [5, 2, 4]),
    ],
    ids=["wide", "narrow"],
)
def test_the_charts_stand_still_while_partitions_come_and_go(
    watched: Watched, producer: Producer, counts: list[int]
) -> None:
    held = producer.begin()
    producer.produce("x", txn_id=held)
    wanted = counts[0]

    def with_so_many(route: Route) -> None:
        answer = route.fetch()
        text = answer.text()
        rows = _ROW.findall(text)
        copies = [rows[0].replace('id="held-', f'id="held-{n}-', 1) for n in range(wanted)]
        body = _ROW.sub("", text).replace("<tbody>", f"<tbody>{''.join(copies)}", 1)
        route.fulfill(response=answer, body=body)

    page = watched.page
    page.route("**/?part=now", with_so_many)
    page.goto("/")
    tops = []
    for wanted in counts:
        page.evaluate("htmx.trigger('#now', 'refresh')")
        expect(page.locator("#now tbody tr")).to_have_count(wanted)
        tops.append(page.locator("#trends").evaluate("trends => trends.offsetTop"))
    page.unroute_all(behavior="wait")  # The page asks again by itself.
    producer.end(held, "abort")
    assert len(set(tops)) == 1, tops

"""The charts of what the job ``metrics`` has computed, over figures as it stores them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browser.conftest import NO_WORKER, Watched, sign_in
from tests.console.browser.test_budgets import SCREENS, axe
from tests.server import Served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

_AXE = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
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


@pytest.fixture(scope="module")
def figures(server: Served) -> None:
    server.manage("shell", "-c", _FIGURES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_figures_are_drawn_told_and_tabulated(
    figures: None, chromium: Browser, server: Served, scheme: Any
) -> None:
    """By topic and by owner, wide and narrow; nothing is cut, and nothing complained of."""
    context = chromium.new_context(
        base_url=server.url, color_scheme=scheme, viewport={"width": 1440, "height": 1000}
    )
    context.add_init_script(NO_WORKER)
    sign_in(context, server.user, server.password)
    watched = Watched(context.new_page())
    page = watched.page
    for by, charts in (("topic", 3), ("owner", 3)):
        page.set_viewport_size({"width": 1440, "height": 1000})
        page.goto(f"/pipeline/figures?by={by}&per=hour")
        expect(page.locator("#charts .main-svg:first-child")).to_have_count(charts)
        picture(page, f"figures-{by}-{scheme}")
        assert axe(page, _AXE) == []
        page.set_viewport_size({"width": 320, "height": 800})
        page.reload()
        expect(page.locator("#charts .main-svg:first-child")).to_have_count(charts)
        picture(page, f"figures-{by}-{scheme}-narrow")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert watched.complaints == []
    assert watched.violations() == []
    context.close()


def test_a_chart_s_values_are_words_and_a_table_too(figures: None, watched: Watched) -> None:
    page = watched.page
    page.goto("/pipeline/figures?by=topic&per=hour&name=x/y/rare")
    chart = page.get_by_role("img", name="Messages")
    expect(chart).to_have_accessible_description(re.compile(r"^Newest: Messages [\d,]+\.$"))
    panel = page.locator("section.figure").first
    panel.get_by_text("Show as table").click()
    rows = panel.locator("tbody tr")
    expect(rows.first).to_contain_text("2026-11-21 04:00")
    # Hours in which it wrote nothing are there, and wrote nothing.
    expect(rows).to_have_count(29)
    expect(rows.nth(1).locator("td").last).to_have_text("0")


def test_time_that_readers_were_held_back_has_a_unit_and_what_is_not_known_says_so(
    figures: None, watched: Watched
) -> None:
    page = watched.page
    page.goto("/pipeline/figures?by=owner&per=hour")
    expect(page.locator("#amount .ytick").last).to_contain_text(re.compile(r"^\d+ min$"))
    for name in ("begin_commit", "commit_visible"):
        expect(page.locator(f"#{name} .annotation")).to_have_text("Nothing was measured.")
    dates = page.locator("#amount .xtick").all_text_contents()
    assert len(dates) == len(set(dates)) > 1


def picture(page: Page, name: str) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"{name}.png", full_page=True)

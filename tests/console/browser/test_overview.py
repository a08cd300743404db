"""The overview's charts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

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
    # More than other tests have left, so that its row is the first: a longer name takes two lines.
    producer.produce(*["x"] * 600, txn_id=held)
    wanted = counts[0]

    def with_so_many(route: Route) -> None:
        answer = route.fetch()
        text = answer.text()
        rows = _ROW.findall(text)
        copies = [rows[0].replace('id="held-', f'id="held-{n}-', 1) for n in range(wanted)]
        body = _ROW.sub("", text).replace("<tbody>", f"<tbody>{''.join(copies)}", 1)
        route.fulfill(response=answer, body=body)

    page = watched.page
    page.goto("/")
    expect(page.locator("#now tbody tr").first).to_contain_text(producer.topic)
    page.route("**/?part=now", with_so_many)
    tops = []
    for wanted in counts:
        page.evaluate("htmx.trigger('#now', 'refresh')")
        expect(page.locator("#now tbody tr")).to_have_count(wanted)
        tops.append(page.locator("#trends").evaluate("trends => trends.offsetTop"))
    page.unroute_all(behavior="wait")  # The page asks again by itself.
    producer.end(held, "abort")
    assert len(set(tops)) == 1, tops


def test_after_an_abort_from_its_row_the_overview_says_how_it_stands(
    watched: Watched, producer: Producer
) -> None:
    """The row that had the focus goes with its transaction, and holds nothing still."""
    held = producer.begin()
    producer.produce(*["x"] * 600, txn_id=held)
    page = watched.page
    page.goto("/")
    row = page.locator("#now tbody tr").filter(has_text=producer.topic)
    row.get_by_role("button", name=f"Abort… transaction {held}").click()
    page.mouse.move(2, 2)
    dialog = page.locator("#dialog")
    dialog.get_by_label("Reason").fill("left hanging by a dead producer")
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#now")).to_be_focused()
    expect(row).to_have_count(0)


def test_who_points_at_a_row_is_told_how_it_stands_and_keeps_its_transaction_under_the_pointer(
    watched: Watched, producer: Producer
) -> None:
    first, second = producer.begin(), producer.begin()
    producer.produce(*["x"] * 600, txn_id=first)
    producer.produce(*["x"] * 600, txn_id=second)

    def with_news(route: Route) -> None:
        answer = route.fetch()
        text = re.sub(
            r'(<p class="verdict").*?</p>', r"\1>All is well.</p>", answer.text(), flags=re.S
        )
        route.fulfill(response=answer, body=text)

    page = watched.page
    page.goto("/")
    row = page.locator("#now tbody tr").filter(has_text=producer.topic)
    row.hover()
    place = row.bounding_box()
    page.route("**/?part=now", with_news)
    producer.end(first, "abort")
    expect(row).to_have_attribute("data-gone", "")
    expect(row.get_by_role("button")).to_have_text(f"Abort… transaction {first}")
    expect(page.locator(".verdict")).to_have_text("All is well.")
    assert row.bounding_box() == place
    page.mouse.move(2, 2)
    expect(row.get_by_role("button")).to_have_text(f"Abort… transaction {second}")
    page.unroute_all(behavior="wait")


def _series(route: Route, **others: list[int | None]) -> None:
    """A quarter of an hour in which most ended well, up to a newest span of its own; with other
    columns for some."""
    answer = route.fetch()
    at = [1_790_000_000_000 + 10_000 * n for n in range(90)]
    columns: dict[str, Any] = {
        "committed": 8.0, "aborted": 0.5, "open": 12, "committing": 0, "aborting": 1,
        "p50": 40, "p95": 900, "p99": 3_800, "oldest": 59_970, "doublings": {"5": 70, "9": 4},
    }  # fmt: skip
    found = {name: [value] * 90 for name, value in columns.items()}
    found["committed"][-1] = 10.2
    times = {"range": "15m", "width_s": 10, "since": at[0], "now": at[-1] + 10_000, "at": at}
    route.fulfill(response=answer, json=found | times | {"timeout": 60_000} | others)


def _texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.locator(selector).evaluate_all(
        "found => found.map(one => one.textContent)"
    )
    return found


def test_the_charts_have_the_same_times_in_the_same_places_and_say_of_what_while_their_ends_are(
    watched: Watched,
) -> None:
    page = watched.page
    page.route("**/trends?*", _series)
    page.goto("/")
    page.locator("#durations").scroll_into_view_if_needed()
    places = set()
    for name in ("throughput", "live", "oldest"):
        expect(page.locator(f"#{name} .annotation-text").last).to_be_attached()
        box = page.locator(f"#{name} .nsewdrag").bounding_box()
        chart = page.locator(f"#{name}").bounding_box()
        assert box
        assert chart
        ticks = tuple(_texts(page, f"#{name} .xtick text"))
        places.add((ticks, box["x"] - chart["x"], box["width"], chart["width"]))
        assert "10 s from 14:28:10" in _texts(page, f"#{name} .annotation-text")
    [(ticks, *_)] = places
    assert ticks == ("14:15", "14:20", "14:25")
    canvas = page.locator("#durations canvas").bounding_box()
    around = page.locator("#durations").bounding_box()
    assert canvas == around  # What is drawn in it lies where it was measured to lie.


def test_a_while_in_which_nobody_looked_is_no_while_in_which_nothing_was_open(
    watched: Watched,
) -> None:
    """The stack has a gap there, from the first sample that is missing to the next one that is not,
    as the line of the oldest has."""

    def with_a_gap(route: Route) -> None:
        _series(route, open=[*[1_234] * 30, *[None] * 15, *[1_234] * 45])

    page = watched.page
    page.route("**/trends?*", with_a_gap)
    page.goto("/")
    page.locator("#live").scroll_into_view_if_needed()
    expect(page.locator("#live .annotation-text").first).to_have_text("Open1,234")
    plot = page.locator("#live .nsewdrag").bounding_box()
    gap = page.locator("#live .shapelayer path").bounding_box()
    assert plot
    assert gap
    found = [gap["x"] - plot["x"], gap["width"], gap["height"]]
    assert found == pytest.approx([plot["width"] / 3, plot["width"] / 6, plot["height"]], abs=2)


def test_the_labels_lie_as_what_they_name(watched: Watched) -> None:
    page = watched.page
    page.route("**/trends?*", _series)
    page.goto("/")
    page.locator("#oldest").scroll_into_view_if_needed()
    for name, order in {
        "throughput": ["Aborted0.5 /s", "Committed10.2 /s"],
        "live": ["Open12", "Committing0", "Aborting1"],
        "oldest": ["Oldest59 s"],
    }.items():
        labels = page.locator(f"#{name} .annotation-text tspan.line").locator("..")
        expect(labels).to_have_text(order)
        tops = labels.evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
        bottoms = labels.evaluate_all("all => all.map(one => one.getBoundingClientRect().bottom)")
        assert all(low <= top + 1 for low, top in zip(bottoms, tops[1:], strict=False)), name


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([10, 60, 120], [14, 60, 120]),
        ([0, 0, 0], [14, 42, 70]),
        ([140, 140, 140], [70, 98, 126]),
        ([60, 60], [60, 88]),
    ],
)
def test_labels_stay_within_the_chart_and_cover_none(
    watched: Watched, wanted: list[int], found: list[int]
) -> None:
    page = watched.page
    page.goto("/")
    frame = "(await import('/static/js/trend_frame.js'))"
    middles = page.evaluate(f"async (wanted) => {frame}.spread(wanted, 28, 0, 140)", wanted)
    assert middles == found


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 844}}])
def test_on_a_phone_a_held_partition_shows_its_age_and_transaction_beside_the_button(
    watched: Watched, producer: Producer, options: dict[str, Any]
) -> None:
    held = producer.begin()
    # So many that it is on the first page, whatever else is held back.
    producer.produce(*map(str, range(200)), txn_id=held)
    page = watched.page
    page.goto("/held-back")
    row = page.locator(".blockers tbody tr").filter(has_text=held)
    expect(row).to_be_visible()
    table = page.locator(".blockers")
    assert table.evaluate("table => table.scrollWidth <= table.clientWidth")
    parts = (".name a", ".since", f'a:text-is("{held}")', ".btn")
    boxes = [box for part in parts if (box := row.locator(part).bounding_box())]
    assert len(boxes) == len(parts)
    for index, one in enumerate(boxes):
        assert one["x"] + one["width"] <= 390
        for other in boxes[index + 1 :]:
            apart = one["x"] + one["width"] <= other["x"] or one["y"] + one["height"] <= other["y"]
            assert apart, (one, other)
    producer.end(held, "abort")

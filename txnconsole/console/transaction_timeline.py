"""A transaction's life as lanes, one for its coordinator and one for each participant.

A lane has spans (a state over a time) and marks (something that happened at a moment). The chart
and its table show the same lanes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from engine.inspect.timeline import PARTICIPANTS, PartitionTimes, SubscriptionTimes, Timeline
from engine.model.txn_status import DECISION, TxnStatus, action_of
from txnconsole.console.idle_time import without_idle
from txnconsole.console.phases import phases_of
from txnconsole.console.plots import empty_figure, span_bar
from txnconsole.quantities import duration


@dataclass(frozen=True, slots=True)
class Span:
    """A time in a state; ``until`` is None when it has not ended."""

    status: TxnStatus
    what: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Mark:
    what: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Lane:
    """One row; ``unknown`` when its records do not tell what happened when."""

    name: str
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]

    @property
    def unknown(self) -> bool:
        return not self.spans and not self.marks


def lanes(timeline: Timeline) -> list[Lane]:
    """The lanes: the coordinator first, then partitions and subscriptions."""
    txn = timeline.transaction
    decision = [Mark("decided", txn.decided_at)] if txn.decided_at else []
    end = [Mark("ended", txn.ended_at)] if txn.ended_at else []
    coordinator = Lane(
        f"coordinator {txn.txn_id.tc_id}",
        tuple(
            Span(phase.status, str(phase.status).lower(), phase.since, phase.until)
            for phase in phases_of(txn)
        ),
        (*decision, *end),
    )
    return [
        coordinator,
        *(
            _participant(timeline, one, one.partition, "write", ("marker", one.marker_at))
            for one in timeline.partitions
        ),
        *(
            _participant(timeline, one, one.subscription, "ack", ("acks applied", one.ended_at))
            for one in timeline.subscriptions
        ),
    ]


def _participant(
    timeline: Timeline,
    one: PartitionTimes | SubscriptionTimes,
    name: object,
    does: str,
    end: tuple[str, datetime | None],
) -> Lane:
    """The lane of a partition, which is written to, or of a subscription, which acknowledges."""
    marks = (
        ("registered", one.joined_at),
        (f"first {does}", one.first_at),
        (f"last {does}", one.last_at if one.last_at != one.first_at else None),
        end,
    )
    return Lane(
        str(name),
        _spans(timeline, one.first_at or one.joined_at, end[1] or timeline.transaction.ended_at),
        tuple(Mark(what, at) for what, at in marks if at is not None),
    )


def _spans(timeline: Timeline, since: datetime | None, ended: datetime | None) -> tuple[Span, ...]:
    """Undecided until the coordinator's decision, then waiting until it is carried out here."""
    txn = timeline.transaction
    if since is None:
        return ()
    until = ended or txn.now
    decided = txn.decided_at or until
    spans = [Span(TxnStatus.OPEN, "holds it open", since, max(since, min(decided, until)))]
    action = action_of(txn.status)
    if action is not None and txn.decided_at is not None and txn.decided_at < until:
        spans.append(Span(DECISION[action], "waits for its end", txn.decided_at, until))
    return tuple(spans)


def chart_height(rows: int) -> int:
    """The height in pixels of a chart with so many lanes; the page reserves it while the chart
    loads."""
    return 56 + 30 * min(rows, PARTICIPANTS + 1)


def figure(timeline: Timeline, rows: list[Lane], *, hide_idle: bool = False) -> dict[str, Any]:
    """The lanes as a plotly figure: a bar trace for each state, marks as points. Times count from
    the opening, in a unit that fits, so that even a transaction of 40 ms can be drawn.

    ``idle`` has the stretches in which nothing happened, as places on the axis with their lengths;
    with ``hide_idle`` they are drawn short.
    """
    txn = timeline.transaction
    drawn = template() | {"idle": []}
    if txn.opened_at is None:
        return drawn
    opened = txn.opened_at
    life = (txn.ended_at or txn.now) - opened
    unit, suffix = _unit(life)
    axis = without_idle(_moments(rows, opened), life)
    place = axis.place if hide_idle else _unchanged
    bars = {trace["meta"]: trace for trace in drawn["data"]}
    for lane in rows:
        for span in lane.spans:
            trace, took = bars[str(span.status)], span.until - span.since
            since = place(span.since - opened)
            trace["y"].append(lane.name)
            trace["base"].append(round(since / unit, 4))
            trace["x"].append(round((place(span.until - opened) - since) / unit, 4))
            trace["customdata"].append(f"{span.what} for {_written(took)}")
        for mark in lane.marks:
            trace = bars["marks"]
            trace["y"].append(lane.name)
            trace["x"].append(round(place(mark.at - opened) / unit, 4))
            trace["customdata"].append(f"{mark.what} after {_written(mark.at - opened)}")
    drawn["lanes"] = [lane.name for lane in rows]
    drawn["layout"]["height"] = chart_height(len(rows))
    drawn["idle"] = [
        [round(place(since) / unit, 4), round(place(until) / unit, 4), _written(until - since)]
        for since, until in axis.idle
    ]
    if hide_idle and axis.idle:
        ends = sorted({timedelta(), *(until for _, until in axis.idle), life})
        drawn["layout"]["xaxis"] |= {
            "tickvals": [round(place(at) / unit, 4) for at in ends],
            "ticktext": [_written(at) for at in ends],
        }
    else:
        drawn["layout"]["xaxis"]["ticksuffix"] = f" {suffix}"
    return drawn


def _moments(rows: Iterable[Lane], opened: datetime) -> list[timedelta]:
    """The times of all events, as spans since the opening."""
    return [
        at - opened
        for lane in rows
        for at in (
            *(mark.at for mark in lane.marks),
            *(moment for span in lane.spans for moment in (span.since, span.until)),
        )
    ]


def _unchanged(at: timedelta) -> timedelta:
    return at


def _unit(life: timedelta) -> tuple[timedelta, str]:
    if life < timedelta(seconds=5):
        return timedelta(milliseconds=1), "ms"
    if life < timedelta(minutes=5):
        return timedelta(seconds=1), "s"
    return timedelta(minutes=1), "min"


def _written(took: timedelta) -> str:
    return duration(took / timedelta(milliseconds=1))


def template() -> dict[str, Any]:
    """The figure without data; a new one, to be filled."""
    drawn = json.loads(_template())
    for trace in drawn["data"]:
        trace |= {"x": [], "y": [], "customdata": []}
        if trace["type"] == "bar":
            trace["base"] = []
    return dict(drawn)


@cache
def _template() -> str:
    drawn = empty_figure()
    for status in TxnStatus:
        drawn.add_bar(
            **span_bar(status),
            hovertemplate="%{y}<br>%{customdata}<extra></extra>",
        )
    drawn.add_scatter(
        mode="markers",
        meta="marks",
        marker={"symbol": "line-ns-open", "size": 13, "line": {"width": 2}},
        hovertemplate="%{y}<br>%{customdata}<extra></extra>",
    )
    drawn.update_layout(
        barmode="overlay",
        hovermode="closest",
        margin={"l": 10, "r": 16, "t": 8, "b": 34},
        xaxis={"tickformat": ",~r", "nticks": 8, "rangemode": "tozero"},
        yaxis={
            "type": "category",
            "fixedrange": True,
            "showgrid": False,
            "automargin": True,
            "ticklabelstandoff": 8,
        },
    )
    return str(drawn.to_json())

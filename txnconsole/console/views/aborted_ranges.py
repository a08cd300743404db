"""The aborted-transaction index of a partition, and its effect on a fetch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.inspect.checks import Check
from engine.model.message import MAX_OFFSET
from engine.model.partition import IndexedTxn, PartitionStatus, Segment
from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.fetch_simulation import MAX_OFFSETS, Simulation, simulate
from txnconsole.console.inputs import OffsetsForm
from txnconsole.console.numbers import number_of
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.partition_frame import frame
from txnconsole.console.reads import Region, list_region, region
from txnconsole.console.shapes import WIDTH
from txnconsole.enginedb.wiring import engine

PAGE_ROWS = 50
#: How many segments are offered to choose from.
_SEGMENTS = 100
#: The checks that are about the index and its log.
_INDEX_CHECKS = {
    "index_rows": "Every row points at a marker of its transaction and tells what was open there,"
    " and every marker has a row",
    "one_marker": "A transaction has one marker here, and no message after it",
    "readable_is_decided": "Nothing undecided lies at or below the stable position",
    "sidecar_index": "Every row of the sidecar log points at its marker and its commit",
    "sidecar_markers": "A transaction has one marker in the sidecar log, and no message after it",
    "dense_offsets": "Offsets follow one another without a gap",
}


class FetchForm(OffsetsForm):
    """The offsets of a simulated fetch."""

    end = forms.IntegerField(label="To offset", min_value=0, max_value=MAX_OFFSET, required=False)

    def clean(self) -> dict[str, Any]:
        data = dict(self.cleaned_data)
        if data.get("end") is None and "start" in data:
            data["end"] = data["start"] + 31
        if "start" in data and data["end"] < data["start"]:
            raise forms.ValidationError("The fetch ends before it begins.")
        return data


@dataclass(frozen=True, slots=True)
class StripRange:
    """An aborted range on the strip, in the drawing's units."""

    row: IndexedTxn
    x: float
    width: float


@require_safe
@page(Permission.TOPIC_READ)
def aborted_ranges(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """The index's rows of one segment or of all, on a strip and in a table; a simulated fetch; a
    check."""
    partition = PartitionName(topic, number)
    status = engine().log.status(partition)
    segments = region(lambda: engine().log.segments(partition)[:_SEGMENTS])
    chosen = _segment(request, segments.value or ())
    rows = list_region(
        lambda: engine().log.aborted_index(
            partition,
            ledger_id=None if chosen is None else chosen.ledger_id,
            limit=PAGE_ROWS,
            cursor=request.GET.get("cursor") or None,
        )
    )
    listed = rows.value.items if rows.value else ()
    first, last = _bounds(status, chosen)
    if rows.value and (rows.value.next_cursor or "cursor" in request.GET) and listed:
        # If the strip went beyond the listed rows, it would look as if nothing was aborted there.
        first, last = min(row.first_offset for row in listed), listed[-1].last_offset
    form = FetchForm(request.GET if "start" in request.GET else None)
    asked = form.is_bound and form.is_valid()
    context = frame(partition, "aborted-ranges", status) | {
        "channel": f"part:{partition}",
        "segments": segments,
        "chosen": chosen,
        "rows": rows,
        "first": first,
        "last": last,
        "strip": _strip(listed, first, last),
        "form": form,
        "simulation": region(lambda: _simulate(status, form)) if asked else None,
        "max_offsets": MAX_OFFSETS,
        "verified": _verify(request, partition),
        "may_verify": request.principal.may(Permission.OPERATION_READ),
    }
    return show(
        request,
        "console/aborted_ranges.html",
        context,
        region="console/partials/aborted_index.html",
    )


def _simulate(status: PartitionStatus, form: FetchForm) -> Simulation:
    # What is below the log's start is gone; a fetch from there begins at it (semantics §7).
    start = max(form.cleaned_data["start"], status.log_start_offset)
    end = max(form.cleaned_data["end"], start)
    return simulate(engine(), status.partition, start, end)


def _segment(request: ConsoleRequest, segments: tuple[Segment, ...]) -> Segment | None:
    text = request.GET.get("segment", "")
    return next((each for each in segments if str(each.ledger_id) == text), None)


def _bounds(status: PartitionStatus, segment: Segment | None) -> tuple[int, int]:
    if segment is None:
        return status.log_start_offset, max(status.last_offset, status.log_start_offset)
    return segment.first_offset, max(segment.last_offset, segment.first_offset)


def _strip(rows: tuple[IndexedTxn, ...], first: int, last: int) -> list[StripRange]:
    scale = WIDTH / (last - first + 1)
    strip = []
    for row in rows:
        lower, upper = max(row.first_offset, first), min(row.last_offset, last)
        if lower <= upper:
            width = max(2.0, (upper - lower + 1) * scale)
            x = min((lower - first) * scale, WIDTH - width)
            strip.append(StripRange(row, round(x, 1), round(width, 1)))
    return strip


@dataclass(frozen=True, slots=True)
class Verified:
    """One bounded step of comparing the index with the log; ``position`` is where the next step
    begins."""

    checks: list[tuple[str, Check]]
    start: int
    position: int | None

    @property
    def holds(self) -> bool:
        return not any(check.counter_examples for _, check in self.checks)


def _verify(request: ConsoleRequest, partition: PartitionName) -> Region[Verified] | None:
    start = number_of(request.GET.get("verify", ""))
    if start is None or not request.principal.may(Permission.OPERATION_READ):
        return None

    def check() -> Verified:
        report = engine().inspect.index_invariants(partition, position=start)
        checks = [
            (_INDEX_CHECKS[each.name], each) for each in report.checks if each.name in _INDEX_CHECKS
        ]
        return Verified(checks, start, report.position)

    return region(check)

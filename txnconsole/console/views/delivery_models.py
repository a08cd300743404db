"""A part of a partition's history under three models of delivery, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.model.delivery_models import HistoryEntry, Run, compare, history_of
from engine.model.message import EntryKind
from engine.model.partition import PartitionStatus
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.console.inputs import OffsetsForm
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.partition_frame import frame
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine

#: The most offsets of one comparison.
MAX_OFFSETS = 200
_DEFAULT = 48


class RangeForm(OffsetsForm):
    """The offsets to compare."""

    def clean(self) -> dict[str, Any]:
        data = dict(self.cleaned_data)
        if "start" in data and "end" in data:
            if data["end"] < data["start"]:
                raise forms.ValidationError("The range ends before it begins.")
            if data["end"] - data["start"] >= MAX_OFFSETS:
                raise forms.ValidationError(f"Compare at most {MAX_OFFSETS} offsets at a time.")
        return data


@dataclass(frozen=True, slots=True)
class Chip:
    """A message that becomes readable: its offset, the outcome of its transaction, and its place in
    the log that the model would have, where that differs."""

    offset: int
    state: str
    position: int | None


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """An entry, and what a reader gets under each model once it has been appended."""

    entry: HistoryEntry
    state: str
    gets: list[list[Chip]]


@require_safe
@page(Permission.TOPIC_READ)
def delivery_models(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """Three columns of what a reader would get after each entry, and what that costs."""
    partition = PartitionName(topic, number)
    status = engine().log.status(partition)
    context = frame(partition, "delivery-models", status)
    start = max(status.log_start_offset, status.last_offset - _DEFAULT + 1)
    initial = {"start": str(start), "end": str(max(status.last_offset, start))}
    form = RangeForm(request.GET if "start" in request.GET else initial)
    valid = form.is_valid()
    compared = None
    if valid and not context["is_sidecar"]:
        compared = region(lambda: _compared(status, form.cleaned_data))
    context |= {"form": form, "compared": compared, "max_offsets": MAX_OFFSETS}
    return show(request, "console/delivery_models.html", context, status=200 if valid else 400)


@dataclass(frozen=True, slots=True)
class Compared:
    runs: Sequence[Run]
    rows: Sequence[ComparedRow]
    begun: Sequence[tuple[TxnID, int]]


def _compared(status: PartitionStatus, data: dict[str, int]) -> Compared:
    start = max(data["start"], status.log_start_offset)
    number = min(data["end"], status.last_offset) - start + 1
    if number <= 0:
        return Compared((), (), ())
    log = engine().log
    browsed = log.browse(status.partition, start, number).messages
    entries = history_of([each for each in browsed if each.offset < start + number])
    begun = engine().inspect.open_before(status.partition, start, start + number - 1)
    runs = compare(entries, begun)
    states = _states(entries)
    rows = [
        ComparedRow(
            entry,
            _state(entry.txn_id, states),
            [[_chip(offset, run, entries, states) for offset in run.steps[n]] for run in runs],
        )
        for n, entry in enumerate(entries)
    ]
    return Compared(runs, rows, sorted(begun.items(), key=lambda each: each[1]))


def _states(entries: Sequence[HistoryEntry]) -> dict[TxnID, str]:
    names = {EntryKind.TXN_COMMIT: "COMMITTED", EntryKind.TXN_ABORT: "ABORTED"}
    return {
        entry.txn_id: names[entry.kind]
        for entry in entries
        if entry.txn_id is not None and entry.kind in names
    }


def _state(txn_id: TxnID | None, states: dict[TxnID, str]) -> str:
    return "NONE" if txn_id is None else states.get(txn_id, "OPEN")


def _chip(offset: int, run: Run, entries: Sequence[HistoryEntry], states: dict[TxnID, str]) -> Chip:
    owner = next(entry.txn_id for entry in entries if offset in entry.offsets)
    return Chip(offset, _state(owner, states), run.positions.get(offset))

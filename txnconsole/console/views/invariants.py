"""The invariants of the engine, as the workers check them all the time."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from engine.model.errors import InvalidRequest
from engine.model.topic_name import PartitionName
from txnconsole.access.roles import Permission
from txnconsole.console.name_filter import NameFilter
from txnconsole.console.page import ConsoleRequest, go, page, show
from txnconsole.console.reads import list_region
from txnconsole.enginedb.wiring import engine

PAGE_ROWS = 50

#: What each check promises, in words (design/semantics.md §8).
PROMISES: Mapping[str, str] = {
    "stable_position": "The stable position is the first open offset less one and never moves back",
    "dense_offsets": "Offsets follow one another without a gap",
    "one_marker": "A transaction has one marker in a partition, and nothing after it",
    "ack_fence": "A subscription refuses every transaction that has ended for it",
    "readable_batches": "Every batch begins as batches do, so that its messages can be read",
    "offloaded_files": "The files of offloaded segments are there, whole and nobody else's",
    "sidecar_batches": "Every batch of the sidecar log begins as batches do",
    "sidecar_head": "The sidecar log's head counts the transactions that are open in it",
    "sidecar_markers": "A transaction has one marker in the sidecar log, and nothing after it",
    "sidecar_index": "The sidecar log's index says what its markers say",
    "sidecar_snapshot_and_log": "Snapshot and sidecar log together give the live state",
    "readable_is_decided": "Nothing undecided lies at or below the stable position",
    "index_rows": "The aborted-transaction index says what the markers say",
    "pending_once": "No two transactions hold the same message of a subscription",
    "pending_ack_log": "What transactions hold is what the pending-ack log says",
    "low_water_mark": "No broker knows a low water mark that its coordinator has not reached",
    "ids_increase": "A coordinator issues its ids in order, each once",
    "ids_answer": "Every id that was issued has its outcome, in a header or in the archive",
    "participants_named": "A transaction names all participants that its log says have joined",
    "one_outcome": "All participants of a transaction have the same outcome",
    "snapshot_and_log": "Snapshot and log together give the live state",
}


@require_safe
@page(Permission.OPERATION_READ)
def invariants(request: ConsoleRequest) -> HttpResponse:
    """Every check with its result, its time, and its counter-examples."""
    broken = request.GET.get("broken") == "1"
    cursor = request.GET.get("cursor") or None
    wanted = NameFilter.of(request)
    found = list_region(
        lambda: engine().inspect.invariant_state(
            broken=broken, part=wanted.part, limit=PAGE_ROWS, cursor=cursor
        )
    )
    checks = found.value.page.items if found.value else ()
    context = {
        "channel": "overview",
        "filter": wanted,
        "found": found,
        "broken": broken,
        "keep": "broken" if broken else "",
        "rows": [
            (check, PROMISES.get(check.name, check.name.replace("_", " ").capitalize()),
             _partition(check.subject))
            for check in checks
        ],
        "may_run": request.principal.may(Permission.PARTITION_OPERATE),
    }  # fmt: skip
    return show(
        request, "console/invariants.html", context, region="console/partials/invariants.html"
    )


@require_POST
@page(Permission.PARTITION_OPERATE)
def check_now(request: ConsoleRequest) -> HttpResponse:
    """One bounded step over everything, as the workers make one every few seconds."""
    engine().inspect.check_invariants()
    return go(request, reverse("console:invariants"), "A step over everything was made.")


def _partition(subject: str) -> PartitionName | None:
    """The partition that a check was about; None for a coordinator."""
    try:
        return PartitionName.parse(subject)
    except InvalidRequest:
        return None

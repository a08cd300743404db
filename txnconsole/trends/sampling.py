"""Taking samples; a worker calls :func:`sample` every few seconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from engine import Engine
from engine.inspect.blockers import HeldBack
from engine.model.durations import EndsOfCoordinator, EndsOfSpan
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.trends import CATCH_UP, COARSE, COARSE_KEPT, FINE, FINE_KEPT, span_of
from txnconsole.trends.models import OwnerCost, Sample

#: A run that comes sooner after another has nothing to do.
PAUSE = timedelta(seconds=4)
#: Ends of so long ago are counted again: one stands in the database a little after its moment.
_SETTLING = timedelta(seconds=30)
#: The longest that one look stands for; what happened while no worker ran is nobody's cost.
_LONGEST_LOOK = timedelta(seconds=20)
#: Partitions whose holders are charged.
_HELD_BACK = 100

_MS = timedelta(milliseconds=1)
_SQL = {file.stem: file.read_text() for file in (Path(__file__).parent / "sql").glob("*.sql")}


@dataclass(slots=True)
class SpanEnds:
    """What ended in one span."""

    committed: int = 0
    aborted: int = 0
    durations: dict[int, int] = field(default_factory=dict)
    #: Committed, aborted and timed out of each coordinator.
    coordinators: dict[int, tuple[int, int, int]] = field(default_factory=dict)


def by_span(
    ends: Iterable[EndsOfSpan],
    of_coordinators: Iterable[EndsOfCoordinator],
    since: datetime,
    until: datetime,
) -> dict[datetime, SpanEnds]:
    """Every span that begins from ``since`` on and before ``until``, those without ends too."""
    spans = {}
    while since < until:
        spans[since] = SpanEnds()
        since += FINE
    for each in ends:
        span = spans.setdefault(each.since.astimezone(UTC), SpanEnds())
        if each.status is TxnStatus.COMMITTED:
            span.committed += each.count
        else:
            span.aborted += each.count
        span.durations[each.step] = span.durations.get(each.step, 0) + each.count
    for one in of_coordinators:
        span = spans.setdefault(one.since.astimezone(UTC), SpanEnds())
        span.coordinators[one.tc_id] = one.committed, one.aborted, one.timed_out
    return spans


def charged(held: HeldBack, owners: Mapping[TxnID, str], elapsed: timedelta) -> dict[str, int]:
    """What each owner's transactions held back since the last look, in offsets times milliseconds.

    A transaction is charged with what a partition hides while it holds the stable position there,
    for the time since the last look or since its first message, whichever is less. One that its
    coordinator does not know is nobody's.
    """
    costs: dict[str, int] = {}
    for status in held.partitions:
        owner = status.blocker and owners.get(status.blocker.txn_id)
        if not owner or not status.blocker:
            continue
        standing = min(elapsed, status.held_for)
        cost = status.hidden_messages * max(0, standing // _MS)
        costs[owner] = costs.get(owner, 0) + cost
    return {owner: cost for owner, cost in costs.items() if cost}


def sample(engine: Engine) -> bool:
    """Look at the engine once and write it down; False when another run has just done so.

    Raises:
        EngineError: a database cannot be read; the next run makes the ends good.
    """
    claimed = _row("claim", pause=PAUSE)
    if claimed is None:
        return False
    now, previous = claimed
    load = engine.coordinator.load()
    held = engine.inspect.held_back(_HELD_BACK)
    since = _count_from(now)
    ends = by_span(
        engine.coordinator.ends_between(since, now, FINE),
        engine.coordinator.ends_of_coordinators(since, now, FINE),
        since,
        now,
    )
    elapsed = min(now - previous, _LONGEST_LOOK) if previous else timedelta()
    costs = charged(held, _owners_of_blockers(engine, held), elapsed)
    ages = [
        one.oldest_open_age_ms for one in load.coordinators if one.oldest_open_age_ms is not None
    ]
    with transaction.atomic():
        _put_ends(ends)
        _run(
            "put_moment",
            width_s=FINE.seconds,
            at=span_of(now, FINE),
            open=load.live[TxnStatus.OPEN],
            committing=load.live[TxnStatus.COMMITTING],
            aborting=load.live[TxnStatus.ABORTING],
            oldest_open_ms=max(ages, default=0),
            held_partitions=len(held.partitions),
            held_offsets=sum(status.hidden_messages for status in held.partitions),
        )
        _run(
            "roll_up",
            fine_s=FINE.seconds,
            coarse_s=COARSE.seconds,
            coarse=COARSE,
            since=span_of(since, COARSE),
        )
        if costs:
            _run("add_costs", at=now, owners=list(costs), costs=list(costs.values()))
        _trim(now)
    return True


def _owners_of_blockers(engine: Engine, held: HeldBack) -> dict[TxnID, str]:
    blocking = [status.blocker.txn_id for status in held.partitions if status.blocker]
    known = engine.coordinator.get_many(blocking) if blocking else {}
    return {txn_id: one.owner for txn_id, one in known.items()}


def _count_from(now: datetime) -> datetime:
    """Where the ends that must be counted (again) begin: at the newest sample or a little before
    now, and at a wide span's beginning when a worker was away."""
    newest = (
        Sample.objects.filter(width_s=FINE.seconds).order_by("-at").values_list("at", flat=True)
    )
    known = newest.first() or now
    return span_of(max(now - CATCH_UP, min(known, now) - _SETTLING), FINE)


def _put_ends(spans: Mapping[datetime, SpanEnds]) -> None:
    _run(
        "put_ends",
        width_s=FINE.seconds,
        ats=list(spans),
        committed=[span.committed for span in spans.values()],
        aborted=[span.aborted for span in spans.values()],
        durations=[json.dumps(span.durations) for span in spans.values()],
        coordinators=[json.dumps(span.coordinators) for span in spans.values()],
    )


def _trim(now: datetime) -> None:
    for width, kept in ((FINE, FINE_KEPT), (COARSE, COARSE_KEPT)):
        Sample.objects.filter(width_s=width.seconds, at__lt=now - kept).delete()
    OwnerCost.objects.filter(hour__lt=now - COARSE_KEPT).delete()


def _run(name: str, **parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SQL[name], parameters)


def _row(name: str, **parameters: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(_SQL[name], parameters)
        return cursor.fetchone()

"""Reading the samples: for charts, for the figures of the last minute, for owners' costs.

Every read is of one index range whose length is fixed, however long the system has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Subquery, Sum
from django.db.models.functions import Now

from engine.model.durations import added, percentile_ms
from txnconsole.trends import COARSE, FINE, span_of
from txnconsole.trends.models import OwnerCost, Sample
from txnconsole.trends.models import Sampler as StoredSampler

#: What a chart can show, by the name that its address carries.
RANGES = {
    "15m": (timedelta(minutes=15), FINE, FINE),
    "1h": (timedelta(hours=1), FINE, timedelta(seconds=30)),
    "6h": (timedelta(hours=6), COARSE, COARSE),
    "24h": (timedelta(hours=24), COARSE, timedelta(minutes=10)),
    "7d": (timedelta(days=7), COARSE, timedelta(hours=1)),
}
#: Rates are of so many whole spans: a minute.
_RATE_SPANS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One span: the ends in so many seconds of it, percentiles of how long they took (None without
    ends), and how many were open; None where nobody looked."""

    at: datetime
    seconds: float
    committed: int
    aborted: int
    #: Ends by the step of their duration (engine/model/durations.py).
    durations: Mapping[int, int]
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    open: int | None
    committing: int | None
    aborting: int | None
    oldest_open_ms: int | None
    held_partitions: int | None
    held_offsets: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The points of a while in their order; ``now`` by the database's clock, None when no worker
    has ever looked."""

    now: datetime | None
    length: timedelta
    width: timedelta
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The last whole minute that was sampled; ``age`` is how long ago a worker last looked.

    ``abort_share`` and ``p99_ms`` are None when nothing ended.
    """

    age: timedelta
    committed_per_s: float
    aborted_per_s: float
    abort_share: float | None
    p99_ms: float | None

    @property
    def age_ms(self) -> int:
        return self.age // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class CoordinatorRates:
    """What ended at a coordinator in the last whole minute that was sampled, a second; of the
    aborted, those that timed out."""

    committed_per_s: float
    aborted_per_s: float
    timed_out_per_s: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What an owner's transactions held back: offsets times the seconds they were hidden for."""

    owner: str
    offset_seconds: float
    share: float


def series(range_: str) -> Series:
    """The points of one of :data:`RANGES` (how long, kept in spans of what width, shown in spans of
    what width).

    Raises:
        KeyError: it is none of them.
    """
    length, kept, width = RANGES[range_]
    # The newest span is not over yet: its ends would look like a drop.
    found = Sample.objects.filter(
        width_s=kept.seconds, at__gte=Now() - length, at__lte=Now() - kept
    ).order_by("at")
    spans: dict[datetime, list[Sample]] = {}
    for one in found:
        spans.setdefault(span_of(one.at, width), []).append(one)
    points = tuple(_point(at, samples) for at, samples in spans.items())
    return Series(now=_now(), length=length, width=width, points=points)


def rates() -> Rates | None:
    """What happened in the last minute; None before a worker has looked for a whole span."""
    found = _last_minute()
    if found is None:
        return None
    age, spans = found
    committed = sum(span.committed for span in spans)
    aborted = sum(span.aborted for span in spans)
    seconds = _seconds(spans)
    ended = committed + aborted
    return Rates(
        age=age,
        committed_per_s=committed / seconds,
        aborted_per_s=aborted / seconds,
        abort_share=aborted / ended if ended else None,
        p99_ms=percentile_ms(added(*map(_durations, spans)), 0.99),
    )


def coordinator_rates() -> dict[int, CoordinatorRates] | None:
    """What happened at each coordinator in the last minute, those without ends left out; None when
    no worker has looked for longer than that."""
    found = _last_minute()
    if found is None or found[0] > _RATE_SPANS * FINE:
        return None
    _, spans = found
    seconds = _seconds(spans)
    totals: dict[int, list[int]] = {}
    for span in spans:
        for tc_id, ends in (span.coordinators or {}).items():
            known = totals.setdefault(int(tc_id), [0, 0, 0])
            totals[int(tc_id)] = [a + b for a, b in zip(known, ends, strict=True)]
    return {
        tc_id: CoordinatorRates(*(number / seconds for number in ends))
        for tc_id, ends in totals.items()
    }


def _last_minute() -> tuple[timedelta, list[Sample]] | None:
    """How long ago a worker last looked, and the whole spans before that, the newest first (the
    look's own is not over yet); None when there are none."""
    look = Subquery(StoredSampler.objects.order_by("id").values("at")[:1])
    whole = Sample.objects.filter(width_s=FINE.seconds, at__lte=look - FINE)
    spans = list(whole.annotate(look=look, now=Now()).order_by("-at")[:_RATE_SPANS])
    return (spans[0].now - spans[0].look, [*spans]) if spans else None


def _seconds(spans: Sequence[Sample]) -> float:
    return max(1, len(spans)) * FINE.total_seconds()


def costs(within: timedelta, limit: int) -> tuple[Cost, ...]:
    """The owners whose transactions held back most, by whole hours, and their share of all."""
    rows: Sequence[tuple[str, int]] = list(
        OwnerCost.objects.filter(hour__gt=Now() - within)
        .values("owner")
        .annotate(total=Sum("offset_ms"))
        .order_by("-total", "owner")
        .values_list("owner", "total")
    )
    total = sum(cost for _, cost in rows)
    return tuple(Cost(owner, cost / 1000, cost / total) for owner, cost in rows[:limit] if cost)


def _now() -> datetime | None:
    return StoredSampler.objects.annotate(now=Now()).values_list("now", flat=True).first()


def _point(at: datetime, samples: list[Sample]) -> Point:
    """Several samples in one point: ends add up, of moments the worst counts."""
    durations = added(*map(_durations, samples))
    return Point(
        at=at,
        seconds=sum(one.width_s for one in samples),
        committed=sum(one.committed for one in samples),
        aborted=sum(one.aborted for one in samples),
        durations=durations,
        p50_ms=percentile_ms(durations, 0.5),
        p95_ms=percentile_ms(durations, 0.95),
        p99_ms=percentile_ms(durations, 0.99),
        open=_worst(one.open for one in samples),
        committing=_worst(one.committing for one in samples),
        aborting=_worst(one.aborting for one in samples),
        oldest_open_ms=_worst(one.oldest_open_ms for one in samples),
        held_partitions=_worst(one.held_partitions for one in samples),
        held_offsets=_worst(one.held_offsets for one in samples),
    )


def _worst(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _durations(one: Sample) -> dict[int, int]:
    return {int(step): count for step, count in one.durations.items()}

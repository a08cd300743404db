"""What a query's filters say about where to read: partitions, offsets, times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from txnconsole.pipeline.offsets import OffsetRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Every offset, and every time that has a calendar date, in microseconds since 1970.
MAX_OFFSET = 2**63 - 1
FIRST_TIME, LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999


@dataclass(frozen=True)
class Bounds:
    """Which messages may match a query's filters. Spark applies the filters to the rows again, so
    bounds may be too wide but never too narrow.

    Attributes:
        topics, partitions: those that may match; None: all.
        lower, upper: offsets, a half-open range.
        since, until: publish times in microseconds since 1970, both ends included.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    lower: int = 0
    upper: int = MAX_OFFSET
    since: int = FIRST_TIME
    until: int = LAST_TIME

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> Bounds:
        """The bounds that follow from filters, all of which must hold."""
        bounds = cls()
        for each in filters:
            bounds = bounds.narrowed(each)
        return bounds

    def narrowed(self, by: Filter) -> Bounds:
        """These bounds with one more filter; a filter that they cannot express changes nothing."""
        column = ".".join(getattr(by, "attribute", ()))
        if isinstance(by, EqualTo | EqualNullSafe):
            return self._among(column, [by.value])
        if isinstance(by, In):
            return self._among(column, list(by.value))
        if isinstance(by, GreaterThan | GreaterThanOrEqual):
            return self._from(column, by.value, int(isinstance(by, GreaterThan)))
        if isinstance(by, LessThan | LessThanOrEqual):
            return self._to(column, by.value, -int(isinstance(by, LessThan)))
        return self

    def _among(self, column: str, values: list[Any]) -> Bounds:
        if not values or any(value is None for value in values):
            return self
        if column == "topic":
            topics = frozenset(values)
            return replace(self, topics=topics if self.topics is None else self.topics & topics)
        if column == "partition":
            found = frozenset(values)
            known = self.partitions
            return replace(self, partitions=found if known is None else known & found)
        least = self._from(column, min(values), 0)
        return least._to(column, max(values), 0)  # noqa: SLF001 - its own kind

    def _from(self, column: str, value: Any, more: int) -> Bounds:
        if column == "offset" and isinstance(value, int):
            return replace(self, lower=max(self.lower, value + more))
        if column == "publish_time" and (time := _microseconds(value)) is not None:
            return replace(self, since=max(self.since, time + more))
        return self

    def _to(self, column: str, value: Any, more: int) -> Bounds:
        if column == "offset" and isinstance(value, int):
            return replace(self, upper=min(self.upper, value + more + 1))
        if column == "publish_time" and (time := _microseconds(value)) is not None:
            return replace(self, until=min(self.until, time + more))
        return self

    def clip(self, ranges: Iterable[OffsetRange], *, offsets: bool = True) -> list[OffsetRange]:
        """The parts of ranges within the bounds.

        Args:
            offsets: whether the ranges are of messages' own offsets; in committed order they are
                not, so the bounds of offsets do not apply.
        """
        lower, upper = (self.lower, self.upper) if offsets else (0, MAX_OFFSET)
        clipped = [
            replace(each, lower=max(each.lower, lower), upper=min(each.upper, upper))
            for each in ranges
            if (self.topics is None or each.place.topic in self.topics)
            and (self.partitions is None or each.place.partition in self.partitions)
        ]
        return [each for each in clipped if each.lower < each.upper]


def _microseconds(value: object) -> int | None:
    """A time as Spark gives it; one without a zone is not compared by the source."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(microseconds=1)

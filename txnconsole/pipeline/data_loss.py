"""What happens when messages were deleted before they were read, by retention or with their topic:
the read fails, or logs a warning and goes on.

Otherwise a read of offsets that are gone, or that go between planning and reading, would silently
return less than it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import structlog

from txnconsole.pipeline.offsets import OffsetRange, Place

_SHOWN = 5

_log = structlog.get_logger(__name__)


class DataLost(Exception):
    """Messages that were to be read are deleted."""


def dropped(ranges: Iterable[OffsetRange], starts: Mapping[Place, int]) -> list[OffsetRange]:
    """The parts of ranges that lie below the start of their logs.

    Args:
        starts: where each partition's log starts now.
    """
    return [
        OffsetRange(each.place, each.lower, min(starts[each.place], each.upper))
        for each in ranges
        if each.lower < min(starts.get(each.place, 0), each.upper)
    ]


def tell(lost: Sequence[OffsetRange], *, fails: bool) -> None:
    """Report what retention has dropped, if anything.

    Args:
        fails: raise, rather than log a warning.

    Raises:
        DataLost: something is lost, and the read is to fail.
    """
    refusal = (
        "Retention has dropped what was to be read: {}. Begin above it, or give"
        " failOnDataLoss=false to read what is left."
    )
    _tell(lost, "messages_dropped_before_they_were_read", refusal if fails else None)


def tell_deleted(lost: Sequence[OffsetRange], *, fails: bool) -> None:
    """Report what was deleted together with its topic, if anything, as :func:`tell` does.

    Raises:
        DataLost: something is lost, and the read is to fail.
    """
    refusal = (
        "A topic was deleted before it was read: {}. Give failOnDataLoss=false to go on without it."
    )
    _tell(lost, "topic_deleted_before_it_was_read", refusal if fails else None)


def _tell(lost: Sequence[OffsetRange], event: str, refusal: str | None) -> None:
    if not lost:
        return
    if refusal is not None:
        shown = (f"{each.place} from {each.lower} to {each.upper}" for each in lost[:_SHOWN])
        raise DataLost(refusal.format(", ".join(shown)))
    _log.warning(event, offsets={str(each.place): [each.lower, each.upper] for each in lost})

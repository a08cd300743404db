"""What happens when retention has deleted messages before they were read: the read fails, or logs a
warning and goes on.

Otherwise a read of offsets that are gone, or that go between planning and reading, would silently
return less than it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from txnconsole.pipeline.offsets import OffsetRange, Place

_SHOWN = 5

_log = structlog.get_logger(__name__)


class DataLost(Exception):
    """Retention has deleted messages that were to be read."""


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


def tell(lost: list[OffsetRange], *, fails: bool) -> None:
    """Report what is lost, if anything.

    Args:
        fails: raise, rather than log a warning.

    Raises:
        DataLost: something is lost, and the read is to fail.
    """
    if not lost:
        return
    if fails:
        told = ", ".join(
            f"{each.place} from {each.lower} to {each.upper}" for each in lost[:_SHOWN]
        )
        raise DataLost(
            f"Retention has dropped what was to be read: {told}. Begin above it, or give"
            " failOnDataLoss=false to read what is left."
        )
    _log.warning(
        "messages_dropped_before_they_were_read",
        offsets={str(each.place): [each.lower, each.upper] for each in lost},
    )

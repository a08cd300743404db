"""Messages that retention has dropped before a read came to them: it fails, or says so and goes on.

A read that is asked for offsets that are gone, or whose topic loses them between planning and
reading, would otherwise answer less than it was asked for, and nobody could see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from txnconsole.pipeline.offsets import OffsetRange, Place

_SHOWN = 5

_log = structlog.get_logger(__name__)


class DataLost(Exception):
    """Retention has dropped messages that were to be read."""


def dropped(ranges: Iterable[OffsetRange], starts: Mapping[Place, int]) -> list[OffsetRange]:
    """The parts of ranges that lie below where their logs begin now."""
    return [
        OffsetRange(each.place, each.lower, min(starts[each.place], each.upper))
        for each in ranges
        if each.lower < min(starts.get(each.place, 0), each.upper)
    ]


def tell(lost: list[OffsetRange], *, fails: bool) -> None:
    """Say what is lost, if anything.

    Raises:
        DataLost: something is, and the read is to fail of it.
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

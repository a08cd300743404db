"""What a READ_COMMITTED fetch of a few offsets returns, entry by entry, and why."""

from __future__ import annotations

from dataclasses import dataclass

from engine import Engine
from engine.model.aborted_scan import ScannedRow, scan
from engine.model.message import StoredMessage
from engine.model.page import encode_cursor
from engine.model.partition import Fetched
from engine.model.topic_name import PartitionName

#: The most offsets of one simulation.
MAX_OFFSETS = 100
#: The most rows of the index that it looks at.
_ROWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """``returned`` are the offsets that the fetch returned. ``rows`` has what the scan of the index
    made of each row, ``cut`` whether there were more rows than it looked at."""

    from_offset: int
    to_offset: int
    entries: tuple[StoredMessage, ...]
    returned: frozenset[int]
    fetched: Fetched
    rows: tuple[ScannedRow, ...]
    cut: bool


def simulate(engine: Engine, partition: PartitionName, start: int, end: int) -> Simulation:
    """Fetch the offsets from ``start`` to ``end``, and apply the rule to the index.

    Raises:
        EngineError: the partition does not exist or cannot be read.
    """
    number = min(end - start + 1, MAX_OFFSETS)
    fetched = engine.log.fetch(partition, start, number)
    browsed = engine.log.browse(partition, start, number)
    index = engine.log.aborted_index(partition, limit=_ROWS, cursor=encode_cursor(start))
    # The broker reads no further than the stable position, and neither does the scan.
    upper = min(start + number, fetched.stable_position + 1)
    rows = scan(index.items, start, upper)
    return Simulation(
        from_offset=start,
        to_offset=start + number - 1,
        entries=tuple(each for each in browsed.messages if each.offset < start + number),
        returned=frozenset(message.offset for message in fetched.messages),
        fetched=fetched,
        rows=rows,
        cut=index.next_cursor is not None and len(rows) == len(index.items),
    )

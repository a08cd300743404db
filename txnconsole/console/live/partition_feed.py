"""The channel of one partition: the entries that were added, and what they changed."""

from __future__ import annotations

import time
from typing import Any

from engine import Engine
from engine.model.partition import PartitionStatus
from engine.model.topic_name import PartitionName
from txnconsole.access.payloads import Sight, sight_in_common
from txnconsole.console.live.feed import Reading
from txnconsole.console.log_window import (
    packed,
    position_of,
    read_blockers,
    read_entries,
    spans_of,
    summary_of,
)
from txnconsole.enginedb.wiring import engine

#: When there are more new entries than this, the page reads its window again instead.
MAX_ENTRIES = 256
#: After so many seconds a new masking rule is applied to frames.
RULES_HOLD_S = 5.0


class PartitionFeed:
    """Sends new entries, the ongoing transactions with their states, and the positions.

    A frame says from which offset on it is complete (``from``). A page that knows everything below
    applies it, even if it knows more; any other page reads its window again. Ends of transactions
    are not told separately, since their markers are among the entries. A feed is either for
    listeners who may read messages, and has keys, or for others, and has none.
    """

    def __init__(self, partition: PartitionName, *, reads_messages: bool) -> None:
        self._partition, self._reads_messages = partition, reads_messages
        self._last: int | None = None
        self._known: tuple[str, int] | None = None
        self._position = ""
        self._known_sight: Sight | None = None
        self._sight_until = 0.0

    def read(self) -> Reading:
        """Look once.

        Raises:
            EngineError: the partition does not exist or its broker cannot be read.
        """
        source = engine()
        status = source.log.status(self._partition)
        ongoing = spans_of(read_blockers(source, status))
        position = position_of(status, ongoing)
        if position == self._position:
            return Reading(position, None)
        change = self._change(source, status) | {"txns": ongoing, "summary": summary_of(status)}
        self._last, self._position = status.last_offset, position
        self._known = status.broker, status.partition_id
        return Reading(position, change)

    def _change(self, source: Engine, status: PartitionStatus) -> dict[str, Any]:
        if self._known not in {None, (status.broker, status.partition_id)}:
            # The topic was made anew: what pages know is of the one before, and none applies this.
            return {"from": status.last_offset + 2, "entries": []}
        if self._last is None or not 0 <= status.last_offset - self._last <= MAX_ENTRIES:
            return {"from": status.last_offset + 1, "entries": []}
        start = self._last + 1
        new = read_entries(source, status, start, status.last_offset - self._last)
        sight = self._sight()
        return {"from": start, "entries": [packed(message, sight) for message in new]}

    def _sight(self) -> Sight:
        """What may be shown of keys; read again after :data:`RULES_HOLD_S`."""
        now = time.monotonic()
        if self._known_sight is None or now >= self._sight_until:
            self._known_sight = sight_in_common(
                self._partition.topic, reads_messages=self._reads_messages
            )
            self._sight_until = now + RULES_HOLD_S
        return self._known_sight

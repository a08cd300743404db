"""Where an offset stands, as Pulsar writes positions."""

from __future__ import annotations

from engine.model.topic_name import PartitionName
from txnconsole.enginedb.wiring import engine
from txnconsole.pulsar.names import EARLIEST, position_text


def position(partition: PartitionName, offset: int) -> str:
    """``ledger:entry`` of an offset."""
    found = engine().inspect.entry(partition, offset)
    return EARLIEST if found is None else position_text(found.position)

"""Where an offset stands, as Pulsar writes positions."""

from __future__ import annotations

from engine.model.topic_name import PartitionName
from txnconsole.enginedb.wiring import engine
from txnconsole.pulsar.names import position_text


def position(partition: PartitionName, offset: int) -> str:
    """``ledger:entry`` of an offset."""
    found = engine().log.browse(partition, offset, 1).messages
    return position_text(found[0].message_id if found else None)

"""Pulsar's names of topics, transactions and positions."""

from __future__ import annotations

import re
from datetime import datetime

from engine.inspect.positions import Position
from engine.model.errors import InvalidRequest
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from txnconsole.api.decoding import invalid

_PARTITION = re.compile(r"(.+)-partition-(\d{1,6})")
_TXN = re.compile(r"\((\d{1,20}),(\d{1,20})\)", re.ASCII)
_HALF = 2**64
#: A position before the first entry, as Pulsar writes it.
EARLIEST = "-1:-1"
#: Pulsar's calls give no reason; the audit log says this.
REASON = "asked for through Pulsar's admin API"


def split_topic(name: str) -> tuple[str, int | None]:
    """``orders-partition-3`` is partition 3 of ``orders``; another name is a topic's own."""
    found = _PARTITION.fullmatch(name)
    return (name, None) if found is None else (found[1], int(found[2]))


def only_partition(topic: Topic) -> PartitionName:
    """The partition that a topic's own name stands for.

    Raises:
        InvalidRequest: the topic has several.
    """
    count = len(topic.brokers)
    if count > 1:
        raise invalid(
            "topic", f"has {count} partitions; name one, e.g. {topic.name.topic}-partition-0"
        )
    return PartitionName(topic.name, 0)


def partition_text(partition: PartitionName) -> str:
    """``persistent://tenant/namespace/topic-partition-0``."""
    return f"persistent://{partition.topic}-partition-{partition.number}"


def txn_id_of(text: str) -> TxnID:
    """Read ``(mostSigBits,leastSigBits)``.

    Raises:
        InvalidRequest: a half is no unsigned 64-bit number, or no such id can be.
    """
    found = _TXN.fullmatch(text)
    most, least = (int(found[1]), int(found[2])) if found else (_HALF, _HALF)
    if max(most, least) >= _HALF:
        raise InvalidRequest(f"{text[:60]} is not two unsigned 64-bit numbers.", field="txn_id")
    return TxnID.from_bits(most, least)


def txn_text(txn_id: TxnID) -> str:
    """``(mostSigBits,leastSigBits)``."""
    return f"({txn_id.most_bits},{txn_id.least_bits})"


def position_text(position: Position) -> str:
    """``ledger:entry``."""
    return f"{position.ledger_id}:{position.entry_id}"


def ledger_name(partition: PartitionName) -> str:
    """``tenant/namespace/persistent/topic-partition-0``."""
    topic = partition.topic
    return f"{topic.tenant}/{topic.namespace}/persistent/{topic.topic}-partition-{partition.number}"


def epoch_ms(moment: datetime | None) -> int:
    """A moment as Java's clock counts; 0 when there is none."""
    return 0 if moment is None else round(moment.timestamp() * 1000)

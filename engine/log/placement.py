"""Whether each broker's database is the one that the catalog means by its name.

Brokers are named by the order of their addresses (docs/operations.md, ``BROKER_DATABASE_URLS``):
one that is put before another, or taken out from before it, gives that one's name to a database of
other partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.postgres.database import Session

#: The oldest topics. The first topic of a namespace makes one of the engine's own, which has a
#: partition on each broker.
_TOPICS = 20
#: The first partitions of each, which go round the brokers.
_PARTITIONS = 64

#: The brokers of topics' first partitions, by topic id.
Placement = Mapping[int, Sequence[str]]


def known_placement(catalog: Session) -> Placement:
    """Where the catalog has the first partitions of some topics."""
    rows = catalog.all("oldest_topics", limit=_TOPICS, partitions=_PARTITIONS)
    return {row.topic_id: row.brokers for row in rows}


def another_broker(session: Session, name: str, placement: Placement) -> str | None:
    """The broker whose partitions are in the database of the one of this name, if there are any."""
    rows = session.all("first_partitions", topic_ids=list(placement), partitions=_PARTITIONS)
    for row in rows:
        brokers = placement[row.topic_id]
        owner = brokers[row.number] if row.number < len(brokers) else name
        if owner != name:
            return owner
    return None

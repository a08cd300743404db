"""The transaction buffer of a partition: which transactions are ongoing, and how they end.

Marker buffer (Pulsar as shipped, semantics §4.1): messages go to the partition's log itself; a
transaction ends with a marker entry.

States of a partition's buffer
    absent (after a crash of the database) -> rebuilt from snapshot and log -> live.

Invariants
    stable_position = (lowest first offset of an ongoing transaction) - 1, or the last offset.
    A marker, its index row, the fence and the positions become durable in one SQL transaction.
    After the marker nothing joins the transaction in that partition: appends look at the fence
    under the same lock.

What a crash leaves behind
    Entries, index, fence and snapshots are records. Head and ongoing transactions are UNLOGGED and
    rebuilt by recovery; until then the partition answers PartitionUnavailable.
"""

from __future__ import annotations

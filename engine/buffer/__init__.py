"""The transaction buffer of a partition: which transactions are ongoing, and how they end.

Marker buffer (Pulsar as shipped, semantics §4.1): messages go to the partition's log itself; a
transaction ends with a marker entry.

Sidecar buffer (PIP-31, semantics §4.3): messages wait in the partition's sidecar log, which is a
log of its own with a marker buffer. A commit's marker in the partition stands for the messages and
takes their offsets; the marker in the sidecar log names it. An abort leaves a marker in the sidecar
log only, and only when there are messages. What readers of the partition see never waits; so
READ_UNCOMMITTED readers see no more than READ_COMMITTED ones.

States of a partition's buffer
    absent (after a crash of the database) -> rebuilt from snapshot and log -> live.

Invariants
    stable_position = (lowest first offset of an ongoing transaction) - 1, or the last offset; with
    a sidecar always the last offset.
    A marker, its index row, the fence and the positions become durable in one SQL transaction.
    After the marker nothing joins the transaction in that partition: appends look at the fence
    under the same lock: the partition's head, or the sidecar log's for appends to that one; an end
    holds both, the partition's first. The fence is the partition's.
    An entry of a sidecar log stands under exactly one of its two keys, the log's or the compacted
    one; compaction moves it within one statement, after its transaction's end.

Lock order
    records of the partition and of its sidecar log, then the heads in the same order.

What a crash leaves behind
    Entries, index, fence and snapshots are records. Head and ongoing transactions are UNLOGGED and
    rebuilt by recovery; until then the partition answers PartitionUnavailable. Recovery writes the
    marker of a commit into the sidecar log when it finds only the partition's (mend_sidecar.sql).
    Compaction loses nothing at any point: each step is one SQL transaction of whole entries.
"""

from __future__ import annotations

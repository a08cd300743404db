"""The transaction buffer of a partition: which transactions are ongoing, and how they end.

Marker buffer (Pulsar as shipped, semantics §4.1): messages go to the partition's log itself; a
transaction ends with a marker entry.

Sidecar buffer (PIP-31, semantics §4.3): messages wait in the partition's sidecar log, which is a
log of its own with a marker buffer. A commit writes two markers: the one in the partition stands
for the messages and takes as many offsets as there are messages; the one in the sidecar log names
the first. An abort writes a marker in the sidecar log only, and only when there are messages. So
nothing in the partition itself is undecided, and READ_UNCOMMITTED readers see no more than
READ_COMMITTED ones.

States of a partition's buffer
    absent (after a crash of the database) -> rebuilt from snapshot and log -> live.

Invariants
    stable_position = (lowest first offset of an ongoing transaction) - 1, or the last offset; with
    a sidecar always the last offset.
    A marker, its index row, the fence and the positions become durable in one SQL transaction.
    After the marker nothing is added to the transaction in that partition, because appends check
    the fence under a lock that the end holds too. For appends to the partition that is its head,
    for appends to the sidecar log that log's head; an end locks both, the partition's first. There
    is one fence, the partition's.
    An entry of a sidecar log has exactly one of two keys, the log's or the compacted one;
    compaction moves it from the first to the second within one statement, after its transaction's
    end.

Lock order
    records of the partition and of its sidecar log, then the heads in the same order.

What a crash leaves behind
    Entries, index, fence and snapshots are durable. Head and ongoing transactions are UNLOGGED and
    rebuilt by recovery; until then the partition answers PartitionUnavailable. When recovery finds
    only the partition's marker of a commit, it writes the one in the sidecar log
    (mend_sidecar.sql). Compaction loses nothing at any point: each step is one SQL transaction of
    whole entries.
"""

from __future__ import annotations

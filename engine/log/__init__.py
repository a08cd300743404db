"""Topics, their partitions, and the partition log: append and fetch.

A partition log is entries at contiguous offsets, in segments. An entry is one row: a produced batch
or one transaction's marker (design/semantics.md §1).

Invariants
    Offsets are dense and never reused: they are taken under the lock of the partition's head.
    An entry, its index row and the positions that it moves become durable together.
    Below log_start_offset there is nothing for anybody, whatever rows retention has yet to delete.
    A fetch answers records, aborted list and positions from one snapshot of the database.
    An entry's body is its batch, or a reference to a file that holds it for good
    (engine.log.offloaded): nothing but the opening of a batch knows which.

Lock order
    catalog's row of a topic (shared, while its partitions are made; the brokers are asked under
    it), then partition records ascending by id (FOR NO KEY UPDATE, operators, retention and
    deletion only; shared by who makes a subscription), then partition heads (partition_live) in the
    order of (topic id, number), a system topic's last; everything else of a partition is under its
    head.

What a crash leaves behind
    PostgreSQL empties the UNLOGGED head and ongoing transactions: the partition answers
    PartitionUnavailable until engine.buffer.recovery has rebuilt both from snapshot and log.
"""

from __future__ import annotations

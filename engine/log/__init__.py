"""Topics, their partitions, and the partition log: append and fetch.

A partition log is entries at contiguous offsets, in segments. An entry is one row: a produced batch
or one transaction's marker (design/semantics.md §1).

Invariants
    Offsets are dense and never reused: they are taken under the lock of the partition's head.
    An entry, its index row and the positions that it moves become durable together.
    What lies below log_start_offset does not exist for any reader, even while retention has not
    deleted its rows yet.
    A fetch answers records, aborted list and positions from one snapshot of the database.
    An entry's body is its batch, or a reference to a file that holds the batch for good
    (engine.log.offloaded). Only the code that opens a batch knows which.

Lock order
    1. The topic's row in the catalog, in the coordinators' database: FOR NO KEY UPDATE while its
       partitions or a subscription are made on the brokers, or a subscription is deleted there; FOR
       SHARE while a broker gets what it lacks of a subscription.
    2. The topic's id on a broker (an advisory lock), to make or delete partitions or subscriptions
       there. Then partition records, ascending by id. Operators' commands, retention, compaction,
       offloading, recovery and a topic's deletion lock them; a subscription's creation and seek,
       and retention's counting, take share locks of them; appends and ends take neither.
    3. Partition heads (partition_live), in the order of (topic id, number), a system topic's last.
       Everything else of a partition is written under its head.

What a crash leaves behind
    PostgreSQL empties the UNLOGGED head and ongoing transactions: the partition answers
    PartitionUnavailable until engine.buffer.recovery has rebuilt both from snapshot and log.
"""

from __future__ import annotations

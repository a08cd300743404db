"""The audit: what the engine says, recomputed from the raw log alone, and compared.

Purpose: a check that does not rest on the engine's own records. Outcomes, stable positions and the
index of transactions are computed anew from entries, what transactions hold of subscriptions from
the pending-ack log, which dead letters must have arrived from their numbers; then they are compared
with the index, the heads, the fences, the cursors, what is in flight and the coordinators' records,
archived ones too (design/pipeline.md, Jobs).

How: the rows of the logs and of the engine's state are copied to Parquet files under one snapshot
of each broker (``source``), so that no snapshot is held open while Spark computes; the rest reads
the copy alone (``recomputed``, ``report``). A rule is a file of Spark SQL in ``sql/rules`` that
answers a row for each finding; its name is the finding's.

Invariants:
- Snapshots of different databases are never taken for one. Coordinators are read after the brokers:
  a marker's decision was recorded before it. Whether something *should* have its marker is asked of
  transactions that had ended before the first broker was read.
- A dead letter may go from one broker to another, so which of them are on their way is copied
  before any log: what is not any more, must be in the logs.
- The archive does not tell when a transaction ended, and one may get there at once. So it is copied
  twice, before the brokers are read and after: by the first copy a transaction *should* have its
  marker, by the second a marker is right or wrong.
- No window has a frame that looks ahead, which would cost the square of a stuck transaction's
  length; no join or window has a transaction's messages under one key.

After a crash: nothing but files in a temporary directory.
"""

from __future__ import annotations

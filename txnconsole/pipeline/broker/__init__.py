"""Reading straight from the brokers' databases, past the REST API and its server.

Purpose: Arrow batches from PostgreSQL (ADBC, docs/decisions/0017), entries opened in the executors,
tasks of equal size over all brokers at once, and one consistent view for a whole job.

States: none of its own. A :class:`~txnconsole.pipeline.broker.snapshot.Snapshot` holds one reading
SQL transaction for each database from ``take`` to ``close``; tasks adopt its exported snapshot.

Invariants:
- Nothing is written: every session sets ``default_transaction_read_only``, and its role should
  have no more rights than ``broker.grant_reader`` gives it. The jobs ``metrics`` and ``offload``
  write in separate sessions (``Databases.writing``).
- A range below the stable position has the same messages whenever it is read, with or without a
  snapshot; only retention takes messages from it, the oldest first.
- No lock is held that an append, an end or a sweep would wait for.

When the driver crashes, its sessions end and the exported snapshots with them, and tasks that still
run fail: ``snapshot "…" does not exist``. Nothing is left behind.

All statements are in ``statements.sql``; nothing else here knows the tables of engine/sql.
"""

from __future__ import annotations

"""Reading straight from the brokers' databases, past the REST API and its server.

Purpose: Arrow batches out of PostgreSQL (ADBC, docs/decisions/0017), entries opened in the
executors, ranges of equal bytes over all brokers at once, one consistent view for a whole job.

States: none of its own. A :class:`~txnconsole.pipeline.broker.snapshot.Snapshot` holds one reading
SQL transaction for each database from ``take`` to ``close``; tasks adopt its exported snapshot.

Invariants:
- Nothing is written: every session sets ``default_transaction_read_only``, and its role should
  have no more than ``broker.grant_reader`` gives it. What the jobs ``metrics`` and ``offload``
  write they write in sessions of their own (``Databases.writing``).
- What a range below the stable position holds is the same whenever it is read, snapshot or not;
  retention alone takes from it, from the oldest offset on.
- No lock is held that an append, an end or a sweep would wait for.

After a crash of the driver its sessions end, the exported snapshots with them, and tasks that still
run fail: ``snapshot "…" does not exist``. Nothing is left behind.

Statements are in ``statements.sql``; this package knows the tables of engine/sql by them only.
"""

from __future__ import annotations

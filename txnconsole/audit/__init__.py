"""The append-only record of who changed what, and why.

There is one table, ``audit_entry``, to which the database only lets entries be added: a trigger
refuses UPDATE, DELETE and TRUNCATE, for which the processes' login has no right either
(docs/decisions/0062), and another gives each new entry its number, its time and its
place in the chain (``hash`` covers every field and the hash before it). Writers queue on one
advisory lock for the length of an INSERT, so numbers have no gaps and the chain no forks. Threads
that come while an INSERT is under way share the next one.

An entry is written after the change that it records, even if that failed; ``result`` tells. Changes
of Django's own tables (users, tokens, alerts, jobs, runs) share an SQL transaction with their
entries. Elsewhere a crash between a change and its entry leaves the change without one; the
engine's own transaction log, which has the reason of every end, is written together with the
change. Entries of ends that programs make without a reason do not wait for the disk. A crash of
PostgreSQL can lose the newest of these (of less than a second), which the transaction log still
has.

The owner of the database could still rewrite the table from the first changed entry on. Keeping the
newest hash in another place (:func:`~txnconsole.audit.chain.head`) makes that visible too.
"""

from __future__ import annotations

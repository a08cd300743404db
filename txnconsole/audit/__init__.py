"""The append-only record of who changed what, and why.

One table, ``audit_entry``, to which the database lets nobody do anything but add: a trigger
refuses UPDATE, DELETE and TRUNCATE, and another gives each new entry its number, its time and
its place in the chain (``hash`` covers every field and the hash before it). Writers queue on one
advisory lock for the length of an INSERT, so numbers have no gaps and the chain no forks; threads
who come while an INSERT is under way share the next one.

An entry is written after what it records, also when that failed; ``result`` tells. Changes of
users and tokens share an SQL transaction with their entries. Elsewhere a crash
between a change and its entry leaves the change without one; the engine's own transaction log,
which holds the reason of every end, is written with the change itself. Entries of ends that
programs make without giving a reason do not wait for the disk; a crash of PostgreSQL can cost the
newest of them (less than a second's), which the transaction log still has.

The owner of the database could still rewrite the table from its first changed entry on; keeping
the newest hash somewhere else (:func:`~txnconsole.audit.chain.head`) makes that visible too.
"""

from __future__ import annotations

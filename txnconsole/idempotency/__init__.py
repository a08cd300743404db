"""Answers that are kept, so that a call repeated under the same ``Idempotency-Key`` has one effect.

A caller who does not know whether its call arrived sends it again with the same key and gets the
first answer again. A key belongs to a principal and an operation, for :data:`KEPT` (24 hours).

States of a key: free, claimed (a call is under way under it), answered. Every step is one
statement that compares and sets; no lock is held while a call is carried out.

- free → claimed: the first call. Who comes meanwhile waits, or is told to come back.
- claimed → answered: by the attempt that claimed it, with the answer, refused ones too.
- claimed → free: the call failed in a way that says nothing (503, 429, a bug): it may be made
  again.
- claimed → claimed: a process died in the middle. After :data:`LEASE` the next call takes over and
  is carried out again: what the dead one had done by then stands beside it, e.g. an empty
  transaction, which its timeout ends.
- answered → free: after :data:`KEPT`; a worker removes the rows.

Claims and answers do not wait for the disk. A claim stands before what its call does in the same
write-ahead log, so no effect outlives it; a crash of PostgreSQL can cost the newest answers, which
then are as of a process that died.
"""

from __future__ import annotations

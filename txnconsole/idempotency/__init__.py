"""Stored answers, so that a call repeated under the same ``Idempotency-Key`` has one effect.

A caller that does not know whether its call arrived sends it again with the same key, and gets the
first answer again. A key belongs to a principal and an operation, for :data:`KEPT` (24 hours).

States of a key: free, claimed (a call is under way with it), answered. Every step is one
compare-and-set statement; no lock is held while a call is carried out.

- free → claimed: by the first call. Calls that come meanwhile wait, or are told to come back.
- claimed → answered: by the attempt that claimed it, with its answer, even a refusal.
- claimed → free: the call failed for a reason that may pass (401, 403, 429, all from 500 on), so it
  may be made again.
- claimed → claimed: a process died in the middle. After :data:`LEASE` the next call takes over and
  is carried out again. What the dead one has done by then stays, e.g. an empty transaction, which
  its timeout ends.
- answered → free: after :data:`KEPT`; a worker removes the rows. Earlier when its principal's quota
  is full, but not within :data:`KEPT_AT_LEAST`.

A principal has a quota of bytes (``TXNCONSOLE_KEPT_ANSWERS_BYTES``), in which each row counts a
kibibyte beside its answer; triggers keep the sum. Where it is full and nothing is old enough to go,
a free key cannot be claimed, so that nothing is carried out whose answer could not be kept. An
answer that does not fit when its call has been carried out is replaced by a refusal that says so.

Claims and answers do not wait for the disk. A claim is in the write-ahead log before anything that
its call does in the same server, so no effect there survives without its claim; one on a broker's
own server may, when the coordinators' server crashes within the same second. A crash of PostgreSQL
can lose the newest answers; then it is as if a process had died.
"""

from __future__ import annotations

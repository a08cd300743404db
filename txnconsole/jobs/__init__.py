"""Background jobs: long work of an operator that goes on without anybody waiting for it.

A job's items are frozen when it starts (``lifecycle``); a worker carries them out in bounded steps
(``driving``), the way that the job's kind says (``kinds``; ``bulk_abort`` is one).

States: queued -> running -> done | failed | cancelled; queued -> cancelled. ``done``: every item
was carried out, whatever its result. ``failed``: it could not go on; ``error`` says why.

Invariants
    Items are carried out in the order of their numbers. Up to ``position`` all have a result, and
    ``done + failed == position``; those up to ``begun`` may have been carried out; none above it.
    A step is written down before it is done and again with its results, which come in one SQL
    transaction with their audit entries, and only if the worker still has the job: ``lease`` grows
    whenever another takes it over.
    An item may be carried out again by whoever takes over, so a kind's items are idempotent and
    can tell their own earlier work from another's.
    A cancelled job has results for every item that was begun.

Lock order: the job's row, then the audit log's lock. No lock is held while items are carried out.

What a crash leaves behind: a job of a killed worker stands still until its lease is over
(:data:`~txnconsole.jobs.driving.LEASE`); the next worker does again the step that was begun.
"""

from __future__ import annotations

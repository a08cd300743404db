"""The transaction coordinators: the lives of transactions from NewTxn to COMMITTED or ABORTED.

States (engine.model.txn_status): OPEN -> COMMITTING -> COMMITTED, OPEN -> ABORTING -> ABORTED.

Invariants
    Every change of status is a compare-and-set on the expected one with its record in the
    transaction log, in one SQL transaction. COMMITTING or ABORTING is the decision and is never
    reversed.
    Ids are taken under the lock of the coordinator's row, so they become visible in order.
    Participants are added only while OPEN, under a share lock of the header, so that an end sees
    all of them.
    An end is counted in the SQL transaction that records it, so it is counted once (figures.py).
    An ended transaction is either in its tables or in the archive (archive.py).
    The number of coordinators only grows (scaling.py).

Lock order
    coordinator row, group, transaction headers ascending by id, figures ascending by name and
    label. None of these is held while a broker is asked. Participants have no order among
    themselves: a forced deletion that meets an end in a deadlock tries again
    (docs/architecture.md).

What a crash leaves behind
    OPEN transactions keep their deadline and expire by it. COMMITTING and ABORTING ones are found
    by the next sweep and driven on; each participant's end is idempotent (semantics §3). A worker
    that starts does both at once (recovery.py). Counts that a process has collected and not yet
    written, of five seconds at most, are lost.

Where databases are of different ages (a copy, a standby that lagged)
    What a broker holds open and its coordinator has ended gets that end when a low water mark
    passes it (orphans.py). Coordinators that have lost something are refused (continuity.py), until
    it is taken over from the brokers, by hand (reconciliation.py).
"""

from __future__ import annotations

"""Subscriptions: cursors, delivery and pending acknowledgements (semantics §6).

States of a message on a subscription: not delivered -> PENDING (delivered) -> DELETED, and
PENDING -> PENDING_ACK (held by a transaction) -> DELETED or back to PENDING.

Invariants
    No message is in two transactions' pending acks, nor both deleted and pending.
    While PENDING_ACK, a message is delivered to nobody.
    The state costs by ranges of offsets, not by message.
    What a process remembers of a state decides nothing unless the store finds it unchanged.

Lock order
    The cursor's row covers everything of one subscription in one partition; several cursors are
    locked ascending by partition id. A cursor is never locked before a partition head.

What a crash leaves behind
    Cursors, pending acks and their log are records. Deliveries in flight and redelivery counts are
    UNLOGGED: what was in flight is delivered again. A transactional acknowledgement over several
    brokers that breaks off leaves tentative claims: the transaction's end gives them back, unless
    its coordinator has confirmed the call. A dead letter's record, parked or not, is gone on with
    by the sweep.
"""

from __future__ import annotations

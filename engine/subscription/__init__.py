"""Subscriptions: cursors, delivery and pending acknowledgements (semantics §6).

States of a message on a subscription: not delivered -> PENDING (delivered) -> DELETED, and
PENDING -> PENDING_ACK (held by a transaction) -> DELETED or back to PENDING.

Invariants
    No message is in two transactions' pending acks, nor both deleted and pending.
    While PENDING_ACK, a message is delivered to nobody.
    The cost of a state depends on its ranges of offsets, not on the number of messages.
    A record on a broker that is not the subscription's home is a copy of the record that the home
    has now, unless the home has none (records.py).
    A transaction claims messages only of records that were found before its coordinator said OPEN
    (acks.py).
    A state that a process remembers may be decided on, but the decision counts only if the store
    finds the state unchanged.

Lock order
    The lock of a cursor's row covers everything of one subscription in one partition. Several
    cursors are locked ascending by topic id, the subscription's name and partition id. A call that
    needs a partition's head as well locks the head before the cursors.

What a crash leaves behind
    Cursors, pending acks and their log are durable. Deliveries in flight and redelivery counts are
    UNLOGGED: after a crash, what was in flight is delivered again. A transactional acknowledgement
    over several brokers that breaks off leaves tentative claims; the transaction's end gives them
    back, unless its coordinator has confirmed the call. The sweep goes on with every dead letter
    that has a record, parked or not.
"""

from __future__ import annotations

"""Pulsar's admin paths ``/admin/v3/transactions/…`` with Pulsar's field names.

For tools that were written for Pulsar (reference: peers §4.1; apache/pulsar Transactions.java). It
translates and decides nothing. Where Pulsar's answers mislead, these are right: a slow transaction
is one that is old, not one whose timeout is long; a low water mark is the real one, also when
nothing is open. ``timeoutAt`` stays the configured duration in ms, as Pulsar's clients read it.
"""

from __future__ import annotations

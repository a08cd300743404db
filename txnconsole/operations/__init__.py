"""What people change: topics, partitions, subscriptions, coordinators, a message that they write
themselves, transactions that hang or are to be aborted, and jobs. Other ends of transactions are
REST's own.

Purpose: one place for each such change, for the REST API, Pulsar's paths and the console alike, so
that all do the same and write the same into the audit log.

Invariants: every attempt is recorded with who, why, before, after and its result, also the refused
and failed ones. Who may make a change is asked before, at the edge.

A crash after a change and before its entry leaves the change without one; the engine's own records
have it then.
"""

from __future__ import annotations

"""What people change of the engine: topics, partitions, subscriptions, coordinators, a message that
they write themselves, transactions that hang or are to be aborted, one by one or in jobs. Other
ends of transactions are REST's own.

Purpose: one place for each such change, for the REST API, Pulsar's paths and the console alike, so
that all do the same and write the same into the audit log. What belongs to an app of its own is
changed, and recorded, there: runs (:mod:`txnconsole.runs.operating`), rules, channels and silences
of alerts (:mod:`txnconsole.alerts`), users, tokens and masking (:mod:`txnconsole.access`).

Invariants: every attempt is recorded with who, why, before, after and its result, also the refused
and failed ones. Who may make a change is asked before, at the edge.

A crash after a change and before its entry leaves the change without one; the engine's own records
have it then. A job and its entry are one SQL transaction.
"""

from __future__ import annotations

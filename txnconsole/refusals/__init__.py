"""Acknowledgements that were refused because somebody else held, or had deleted, their messages.

Purpose: the engine tells a conflict to whoever causes it and keeps nothing of it; an operator who
is asked why a consumer makes no progress wants to know who was refused, by whom, and how often.

States: one row for each pair of a holder and a refused transaction in a partition; a repetition
counts it up. What is older than :data:`KEPT` goes when the next row is written.

Invariants: a refusal is recorded after the answer is certain and never changes it; a failure to
record is logged and costs the row alone.

A crash between the refusal and its row loses the row, nothing else.
"""

from __future__ import annotations

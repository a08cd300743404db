"""How the engine speaks to PostgreSQL: pools, statements, errors, migrations.

Coordinators and brokers are separate databases, possibly on separate servers; no SQL transaction
ever spans two of them (design/semantics.md §1).

Lock order, the same everywhere; within a kind, ascending by id:
coordinator row, transaction header, figure | partition head (partition_live), cursor, dispatch.
The two sides of the bar are in different databases and never held for one another.
"""

from __future__ import annotations

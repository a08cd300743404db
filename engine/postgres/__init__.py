"""How the engine speaks to PostgreSQL: pools, statements, errors, migrations.

Coordinators and brokers are separate databases, possibly on separate servers; no SQL transaction
ever spans two of them (design/semantics.md §1).

The order in which locks are taken is told in docs/architecture.md, "Lock order".
"""

from __future__ import annotations

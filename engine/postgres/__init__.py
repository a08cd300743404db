"""How the engine speaks to PostgreSQL: pools, statements, errors, migrations.

Coordinators and brokers are separate databases, possibly on separate servers; no SQL transaction
ever spans two of them (design/semantics.md §1).

What a caller wants of every statement below it, however many calls lie between, holds for the
context within a block (engine.postgres.binding): a deadline (deadlines), no second wait for a
database that has given no connection (absences), no long wait for one that is away
(pool_cache.hurried), and a database as it is, compared or not (Database.as_it_is). Everything else
is an argument.

The order in which locks are taken is told in docs/architecture.md, "Lock order".
"""

from __future__ import annotations

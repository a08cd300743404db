"""The museum: known bugs, planted one at a time, each of which has to be found.

Most are planted in the real engine: a SQL function or a named query is changed in the databases of
the test, or a Python function is replaced. A few that a running PostgreSQL makes impossible are
planted in the model. Where a bug was first seen stands beside it (reference/reliability.md §3.7).

A bug found in the product gets its piece here before it is mended.
"""

from __future__ import annotations

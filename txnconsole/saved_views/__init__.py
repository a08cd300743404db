"""Views of the transactions page that people keep: a query and an order under a name.

Invariants: a view is its user's alone; its query was understood when it was kept, and is read anew
each time, so that a language that changes leaves no view that fails. A user keeps at most
:data:`~txnconsole.saved_views.keeping.MAX_VIEWS`.
"""

from __future__ import annotations

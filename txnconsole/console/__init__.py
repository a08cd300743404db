"""The browser console: what operators see and do.

Purpose: server-rendered pages over the engine's reads, one live channel per page over server-sent
events, and the changes that an operator's permissions allow.

States: the console keeps none of its own. A page depends only on the databases and its URL. The ids
of a stream depend only on the databases too, so any web process can continue another's stream.

Invariants:
- A page never shows a payload to a role that may not read payloads.
- A stream holds no database connection (design/console.md §1.4).
- When a broker cannot be reached, its own region of a page fails, not the page.
- Every attempt to change something is in the audit log, including those refused and failed.

A crash leaves nothing behind: browsers reconnect and read again.
"""

from __future__ import annotations

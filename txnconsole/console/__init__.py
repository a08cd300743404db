"""The browser console: what operators see and do.

Purpose: server-rendered pages over the engine's reads, one live channel per page over server-sent
events, and the changes that an operator's permissions let them make.

States: the console keeps none of its own. A page is a function of the databases and its URL; a
stream's ids are functions of the databases too, so that any web process can continue another's.

Invariants:
- A reader's page never shows a payload to a role that may not read payloads.
- A stream holds no database connection (design/console.md §1.4).
- One unreachable broker fails its own region of a page, not the page.
- Every attempt to change something is in the audit log, also the refused and failed ones.

A crash leaves nothing behind: browsers reconnect and read again.
"""

from __future__ import annotations

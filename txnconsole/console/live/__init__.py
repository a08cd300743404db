"""Live updates over server-sent events.

Purpose: tell open pages what has changed, at most once a second for each channel. Each process has
one hub, which reads a channel only while it has a listener.

States of a channel: idle (no listener, nothing runs), reading (one task, one read a second),
failing (the last read failed; the listeners were told, and it is read less often).

Invariants: the id of a frame depends on the databases, never on the process; a listener that does
not keep up is told to read the page again, instead of being buffered without bound; no stream holds
a database connection.

A crash leaves nothing behind; browsers reconnect and compare ids.
"""

from __future__ import annotations

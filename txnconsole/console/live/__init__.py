"""Live updates over server-sent events.

Purpose: tell open pages what changed, at most once a second a channel, from one hub per process
that reads a channel only while someone listens.

States of a channel: idle (no listener, nothing runs), reading (one task, one read a second),
failing (its last read failed; the listeners were told, the reads go on less often).

Invariants: a frame's id is a function of the databases, never of the process; a listener that
does not keep up is told to read again instead of being buffered without bound; no stream holds a
database connection.

A crash leaves nothing behind; browsers reconnect and compare ids.
"""

from __future__ import annotations

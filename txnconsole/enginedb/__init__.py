"""Where Django meets the engine.

One engine per process, made on first use and made anew in a forked child (``wiring``); the engine's
migrations as a command beside Django's (``manage.py migrate_engine``). What Django does in the
coordinators' database, where its tables are: how it waits for a connection (``postgresql``) and
says that there is none (``away``), turns at what no row can be locked for (``advisory_lock``), and
the clock that all processes share (``clock``). Holds no state of its own; a crash leaves nothing
behind.
"""

from __future__ import annotations

"""Where Django meets the engine.

One engine per process, made on first use and made anew in a forked child (``wiring``); the engine's
migrations as a command beside Django's (``manage.py migrate_engine``); turns at what no row can be
locked for (``turns``). Holds no state of its own; a crash leaves nothing behind.
"""

from __future__ import annotations

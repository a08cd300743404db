"""kill -9 of a PostgreSQL server."""

from __future__ import annotations

import contextlib
import os
import signal

from txnconsole.local.postgres import EmbeddedPostgres


def kill(server: EmbeddedPostgres) -> None:
    """Kill all processes of a server. They are looked for until there is none: one that began while
    the others were found would live on, and wait for ever for what a killed one has held."""
    while pids := server._processes():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert server._process is not None
    server._process.wait(20)

"""The product on one machine: embedded servers, and what starts and stops everything.

``python -m txnconsole.local run`` starts PostgreSQL and a Redis-compatible server under the data
directory (or uses those that the environment names), migrates, and keeps the web server, worker,
beat and demo running until it is told to stop. Tests get their servers from here, too.

Invariants: one run per data directory (a lock file); every process it started is gone when it has
ended, also after SIGKILL (each asks the kernel for a signal on its parent's death; a pipeline run,
whose supervisor outlives workers, ends itself within a minute). A crash leaves the data directory
as PostgreSQL left it; the next run recovers it and continues.
"""

from __future__ import annotations

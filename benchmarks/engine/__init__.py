"""The engine rows of design/quality.md, by topic; ``python -m benchmarks.engine`` runs them all.

The server is durable (fsync on). What each row measures beside stands in its name; both sides write
and read the same bytes, turn by turn, on one server in one run.
"""

from __future__ import annotations

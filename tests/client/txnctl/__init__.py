"""The command line, on a running server."""

from __future__ import annotations

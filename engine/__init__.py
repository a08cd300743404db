"""The transaction engine: a library that knows PostgreSQL and no framework."""

from __future__ import annotations

__version__ = "0.1.0"

"""The transaction engine: a library that knows PostgreSQL and no framework.

Public names: :class:`Engine` and :class:`EngineSettings`; the values in :mod:`engine.model`.
Normative: design/semantics.md, told in docs/architecture.md.
"""

from __future__ import annotations

from engine.engine import Engine
from engine.settings import EngineSettings

__all__ = ["Engine", "EngineSettings"]
__version__ = "0.1.0"

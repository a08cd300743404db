"""Values and state machines of the engine. Nothing here does IO or reads a clock."""

from __future__ import annotations

"""Refusals come about over the API: its callers."""

from __future__ import annotations

from tests.api.conftest import as_role, program, topic

__all__ = ["as_role", "program", "topic"]

"""What tests of concurrent calls share."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest


@pytest.fixture
def deadlocks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the victims of deadlocks are told, as they are told it, also where the engine tries
    again. PostgreSQL's own count comes up to ten seconds late."""
    told: list[str] = []

    def tell(error: psycopg.errors.DeadlockDetected, *args: Any, **named: Any) -> None:
        told.append(str(args[0]))
        psycopg.OperationalError.__init__(error, *args, **named)

    monkeypatch.setattr(psycopg.errors.DeadlockDetected, "__init__", tell)
    return told

from __future__ import annotations

import pytest

from txnconsole.monitoring import observation


@pytest.fixture
def looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is told of a look of its own."""
    monkeypatch.setattr(observation, "KEPT_SECONDS", 0.0)

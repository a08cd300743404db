"""Tests' names: whichever test is the first to ask for a server, the server starts."""

from __future__ import annotations

import pytest


def test_no_name_is_too_long_for_an_environment(request: pytest.FixtureRequest) -> None:
    assert max(len(item.nodeid) for item in request.session.items) < 4096

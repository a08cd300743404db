"""A client that may do everything on the running product."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server import Served
from txnconsole.client import Client


@pytest.fixture
def admin(server: Served) -> Iterator[Client]:
    with Client(server.url, server.token("admin")) as client:
        yield client

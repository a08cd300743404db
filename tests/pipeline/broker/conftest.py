"""The served product's databases, as the pipeline reads them."""

from __future__ import annotations

import pytest

from tests.server import Served
from txnconsole.pipeline.broker.databases import Databases


@pytest.fixture
def served_databases(server: Served) -> Databases:
    return Databases.of({}, server.environment)

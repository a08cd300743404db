from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from engine import Engine
from tests.engine.support import make_topic
from tests.support import databases as support
from txnconsole.pipeline.audit.source import take_copy
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.broker.topics import PartitionNotReadable


def test_a_broker_that_was_not_given_is_named_before_anything_is_copied(
    engine: Engine, databases: support.Databases, tmp_path: Path
) -> None:
    make_topic(engine, partitions=2)
    given = {"brokers": databases.broker_urls[0], "coordinator": databases.coordinator_url}
    with pytest.raises(PartitionNotReadable, match=r"on broker-2,.*all of BROKER_DATABASE_URLS"):
        take_copy(
            Mock(),
            Databases.of(given, {}),
            tmp_path,
            progress=Mock(side_effect=AssertionError("copying")),
        )
    assert not list(tmp_path.iterdir())

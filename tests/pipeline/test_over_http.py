"""Reading over HTTP while the log's start moves on. No Spark, no server."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest
from structlog.testing import capture_logs

from txnconsole.pipeline.access import READ_COMMITTED
from txnconsole.pipeline.data_loss import DataLost
from txnconsole.pipeline.filters import Bounds
from txnconsole.pipeline.messages import MESSAGE_SCHEMA, arrow_schema
from txnconsole.pipeline.offsets import OffsetRange, Place
from txnconsole.pipeline.options import Connection
from txnconsole.pipeline.over_http import HttpAccess

_PLACE = Place("public/default/flights", 0)


@dataclass
class Dropping:
    """A server that answers no message below 50, where its log begins by now."""

    next_offset: int = 0

    def client(self) -> Dropping:
        return self

    def reader(self, *_: object, from_offset: int, **__: object) -> Dropping:
        self.next_offset = from_offset
        return self

    def fetch(self) -> SimpleNamespace:
        self.next_offset = 60
        return SimpleNamespace(messages=[])

    def partition(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(log_start_offset=50)


def _read(lower: int, *, fails: bool) -> None:
    access = HttpAccess(cast("Connection", Dropping()), _PLACE.topic, READ_COMMITTED, fails)
    task = OffsetRange(_PLACE, lower, 60)
    assert sum(b.num_rows for b in access.read(task, Bounds(), arrow_schema(MESSAGE_SCHEMA))) == 0


def test_a_task_whose_messages_went_while_it_read_fails_or_tells_so() -> None:
    with pytest.raises(DataLost, match="flights:0 from 7 to 50"):
        _read(7, fails=True)
    with capture_logs() as told:
        _read(7, fails=False)
    assert [line["offsets"] for line in told] == [{str(_PLACE): [7, 50]}]
    with capture_logs() as told:
        _read(50, fails=True)
    assert told == []

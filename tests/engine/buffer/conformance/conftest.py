"""What both transaction buffers promise, through the public engine (semantics §4).

One suite for both; where they differ, :class:`Differences` says how, and nothing else does.
"""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.topic import BufferKind
from tests.engine.buffer.conformance.both_buffers import (
    DIFFERENCES,
    Differences,
)
from tests.engine.support import (
    make_topic,
)


@pytest.fixture(params=BufferKind)
def buffer(request: pytest.FixtureRequest, engine: Engine) -> BufferKind:
    """The topic of the tests exists, with two partitions and this buffer."""
    kind: BufferKind = request.param
    make_topic(engine, partitions=2, buffer=kind, segment_max_messages=5)
    return kind


@pytest.fixture
def differences(buffer: BufferKind) -> Differences:
    return DIFFERENCES[buffer]

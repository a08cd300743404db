"""An engine that knows a directory of offloaded segments, and the job's steps on its brokers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings

from engine import Engine
from tests.support import databases as test_databases
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.offload.files import Written
from txnconsole.pipeline.offload.segments import Segment, due, publish, write_segment
from txnconsole.pipeline.offload.store import Store


@dataclass(frozen=True)
class Offloading:
    """The steps of the job, one by one."""

    databases: Databases
    directory: Path

    @property
    def store(self) -> Store:
        assert self.databases.offload_directory is not None
        return Store(self.databases.offload_directory)

    def due(self) -> list[Segment]:
        return due(self.databases, "*", 0)

    def write(self, segment: Segment) -> Written:
        return write_segment(self.databases, segment, self.store)

    def publish(self, segment: Segment, written: Written) -> bool:
        return publish(self.databases, segment, written, self.store)

    def all(self) -> list[Written]:
        """Offload what is due."""
        files = []
        for segment in self.due():
            files.append(self.write(segment))
            assert self.publish(segment, files[-1])
        return files

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}


@pytest.fixture
def offloading(
    databases: test_databases.Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Offloading:
    directory = tmp_path / "offload"
    monkeypatch.setattr(settings, "OFFLOAD_DIR", str(directory))
    environment = {
        "BROKER_DATABASE_URLS": ",".join(databases.broker_urls),
        "TXNCONSOLE_OFFLOAD_DIR": str(directory),
    }
    return Offloading(Databases.of({}, environment), directory)


@pytest.fixture
def engine(offloading: Offloading, engine: Engine) -> Engine:
    """As everywhere, but with the directory, which is set before it is made."""
    return engine

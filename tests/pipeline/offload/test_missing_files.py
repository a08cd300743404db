"""The invariants notice offloaded files that are missing or damaged before a reader does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine import Engine
from engine.inspect import log_checks
from engine.inspect.invariants import KnownCheck
from engine.log.offloaded import OffloadedFiles
from engine.model.message import NewMessage
from engine.model.topic_name import PartitionName
from tests.engine.support import P0, P1, broker_sql, make_topic, noise
from tests.pipeline.offload.conftest import Offloading


@pytest.fixture
def files(engine: Engine, offloading: Offloading) -> list[Path]:
    """Of each of two partitions two files, those of P0 first."""
    make_topic(engine, partitions=2, segment_max_messages=2)
    for number in range(5):
        for partition in (P0, P1):
            engine.produce(partition, [NewMessage(payload=noise(number, 300))])
    due = sorted(offloading.due(), key=lambda segment: (segment.number, segment.first_offset))
    found = []
    for segment in due:
        written = offloading.write(segment)
        assert offloading.publish(segment, written)
        found.append(offloading.directory / f"{written.file}.parquet")
    assert len(found) == 4
    return found


def known(engine: Engine, partition: PartitionName = P0) -> KnownCheck:
    """What a step of the continuous checks has found of a partition's files."""
    engine.inspect.check_invariants()
    [found] = [
        one
        for one in engine.inspect.invariant_state(limit=500).page.items
        if (one.name, one.subject) == ("offloaded_files", str(partition))
    ]
    return found


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def make_unreadable(path: Path) -> None:
    """For every user, as wrong permissions are for all but root."""
    path.unlink()
    path.mkdir()


def overwrite_the_footer(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-20] + b"x" * 20)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (Path.unlink, "It is missing."),
        (cut_short, "bytes, not"),
        (overwrite_the_footer, "It is damaged."),
        (make_unreadable, "It cannot be opened."),
    ],
)
def test_a_file_that_is_missing_or_damaged_breaks_an_invariant_until_it_is_back(
    engine: Engine, files: list[Path], damage: Callable[[Path], None], fault: str
) -> None:
    assert known(engine).holds
    content = files[1].read_bytes()
    damage(files[1])
    found = known(engine)
    [example] = found.counter_examples
    assert (found.invariant, example["file"]) == (3, files[1].name)
    assert (example["first_offset"], example["last_offset"]) == (2, 3)
    assert fault in str(example["fault"])
    assert known(engine, P1).holds
    if files[1].is_dir():
        files[1].rmdir()
    files[1].write_bytes(content)
    assert known(engine).holds


def test_a_copy_of_another_file_of_the_same_length_breaks_it(
    engine: Engine, files: list[Path]
) -> None:
    files[0].write_bytes(files[2].read_bytes())
    size = "UPDATE broker.offloaded_segment SET file_bytes = %s WHERE file = %s"
    broker_sql(engine, size, files[2].stat().st_size, files[0].stem)
    [example] = known(engine).counter_examples
    assert "copy of another file" in str(example["fault"])
    assert known(engine, P1).holds


def test_a_directory_that_is_away_is_as_if_all_files_were(
    engine: Engine, files: list[Path]
) -> None:
    away = files[0].parent.rename(files[0].parent.with_name("elsewhere"))
    assert [each["file"] for each in known(engine).counter_examples] == [
        each.name for each in files[:2]
    ]
    away.rename(files[0].parent)
    assert known(engine).holds


def test_of_a_store_that_cannot_be_asked_nothing_is_told_and_what_was_known_stays(
    engine: Engine, files: list[Path]
) -> None:
    files[0].unlink()
    assert not known(engine).holds
    for location, told in [(None, "set TXNCONSOLE_OFFLOAD_DIR"), ("nostore://x", "names no store")]:
        engine.inspect._reading.brokers.offloaded = OffloadedFiles(location)
        found = known(engine)
        assert not found.holds
        assert told in str(found.detail)
        found = known(engine, P1)
        assert found.holds
        assert told in str(found.detail)


def test_what_is_dropped_after_the_snapshot_is_not_missed(
    engine: Engine, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = OffloadedFiles.fault

    def dropped_first(self: OffloadedFiles, name: str, size: int) -> str | None:
        if name == files[0].name:
            files[0].unlink()
            gone = "DELETE FROM broker.offloaded_segment WHERE file = %s"
            broker_sql(engine, gone, files[0].stem)
        return look(self, name, size)

    monkeypatch.setattr(OffloadedFiles, "fault", dropped_first)
    assert known(engine).holds


def test_a_step_looks_at_some_files_and_the_next_goes_on_behind_them(
    engine: Engine, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_checks, "FILES", 1)
    looked: list[str] = []
    monkeypatch.setattr(OffloadedFiles, "fault", lambda _self, name, _size: looked.append(name))
    position, positions = 0, []
    while position is not None:
        positions.append(position)
        report = engine.inspect.invariants(P0, position=position)
        assert all(check.passed for check in report.checks)
        position = report.position
    assert positions == [0, 2, 4]
    assert looked == [each.name for each in files[:2]]

"""What stands in a checkpoint about a batch. No Spark, no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnconsole.pipeline.checkpoint import CheckpointUnknown, Planned, require_planned


@pytest.mark.parametrize("name", ["plain", "with space", "größe", "a:b", "100%25", "#1?"])
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_checkpoint_is_found_under_the_name_that_spark_gives_its_directory(
    tmp_path: Path, name: str, scheme: str
) -> None:
    """In a URI too, which Hadoop takes as it is and PyArrow would decode, or refuse."""
    offsets = tmp_path / name / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_bytes(b"v1\n{}\n")
    assert Planned.read(f"{scheme}{tmp_path / name}", "0").content == b"v1\n{}\n"


def test_a_relative_checkpoint_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_bytes(b"v1\n{}\n")
    monkeypatch.chdir(tmp_path.parent)
    assert Planned.read(tmp_path.name, "0").content == b"v1\n{}\n"


def test_a_checkpoint_that_a_commit_could_not_read_is_told_before(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_bytes(b"v1\n{}\n")
    for batch in ("7", None):
        require_planned(str(tmp_path), batch)
    with pytest.raises(CheckpointUnknown, match=r"no .*/offsets/8 in this one"):
        require_planned(str(tmp_path), "8")
    with pytest.raises(CheckpointUnknown, match="the query's own"):
        require_planned(str(tmp_path / "elsewhere"), None)
    with pytest.raises(CheckpointUnknown, match=r"cannot be read: .*s3a"):
        require_planned("s3a://bucket/checkpoint", None)


def test_a_batch_that_is_planned_anew_differs_though_it_reads_as_far() -> None:
    """Such as of files, which Spark numbers anew."""
    first = Planned(b'v1\n{"batchTimestampMs":1}\n{"logOffset":3}')
    anew = Planned(b'v1\n{"batchTimestampMs":2}\n{"logOffset":3}')
    assert first.digest == Planned(first.content).digest != anew.digest

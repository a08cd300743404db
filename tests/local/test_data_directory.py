"""The data directory and its lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from txnconsole.local.data_directory import DataDirectory, write_private
from txnconsole.local.errors import CannotStart, explain


def test_a_secret_stays_the_same_from_run_to_run(tmp_path: Path) -> None:
    with DataDirectory.held(tmp_path / "data") as data:
        first = data.secret("django")
    with DataDirectory.held(tmp_path / "data") as data:
        assert data.secret("django") == first
        assert data.secret("postgres") != first
        assert (tmp_path / "data" / "django.secret").stat().st_mode & 0o777 == 0o600


def test_a_directory_in_use_names_its_holder(tmp_path: Path) -> None:
    with DataDirectory.held(tmp_path):
        script = (
            "import sys; from pathlib import Path;"
            "from txnconsole.local.data_directory import DataDirectory;"
            "from txnconsole.local.errors import CannotStart\n"
            "try:\n  DataDirectory.held(Path(sys.argv[1])).__enter__()\n"
            "except CannotStart as error: print(error)"
        )
        command = [sys.executable, "-c", script, str(tmp_path)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"in use by another run (process {os.getpid()})" in said


def test_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    for _ in range(2):
        with DataDirectory.held(tmp_path):
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_path_too_long_for_a_socket_gets_a_short_one(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    with DataDirectory.held(long) as data:
        assert len(str(data.sockets)) < 80
        assert data.sockets.is_dir()
        data.sockets.rmdir()


@pytest.mark.parametrize("name", ["50%20", "C#", "why?", "1,2", 'a"b'])
def test_a_path_that_an_address_would_misread_gets_another(tmp_path: Path, name: str) -> None:
    with DataDirectory.held(tmp_path / name) as data:
        assert name not in str(data.sockets)
        data.sockets.rmdir()


def test_a_file_in_the_way_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart) as raised, DataDirectory.held(tmp_path / "file" / "data"):
        pass
    assert "\n" not in str(raised.value)


def test_a_read_only_file_system_is_told_as_what_it_is(tmp_path: Path) -> None:
    told = explain(OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / "lock")), tmp_path)
    assert str(told).startswith(f"{tmp_path}/lock is on a file system that is mounted read-only.")


def test_a_private_file_is_never_half_written(tmp_path: Path) -> None:
    file = tmp_path / "login.json"
    write_private(file, "first")
    write_private(file, "second")
    assert file.read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["login.json"]

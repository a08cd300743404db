"""The lock names all that is installed, exactly."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_LINE = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)( ;[^\\]*)?( \\)?$")


def _locked() -> dict[str, str]:
    """The version of each package; every one has a hash."""
    found: dict[str, str] = {}
    blocks = re.split(r"\n(?=\S)", (_ROOT / "requirements.lock").read_text().strip())
    for block in blocks:
        head, *hashes = block.splitlines()
        named = _LINE.match(head)
        assert named, head
        assert hashes, head
        assert all(
            re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?", each) for each in hashes
        ), head
        found[_canonical(named[1])] = named[2]
    return found


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_is_locked_to_one_version_with_hashes() -> None:
    assert len(_locked()) > 50


def test_all_that_the_project_asks_for_is_locked_and_installed_as_locked() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    locked = _locked()
    for requirement in asked:
        found = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert found, requirement
        name = _canonical(found[0])
        assert version(name) == locked[name], requirement

"""Vendored files are what VENDOR.md says, and the page asks nothing of any other host."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "static"
ROW = re.compile(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})` \|$", re.MULTILINE)


def test_every_vendored_file_has_its_checksum() -> None:
    listed = dict(ROW.findall((STATIC / "vendor/VENDOR.md").read_text()))
    present = {
        str(file.relative_to(STATIC))
        for file in [*(STATIC / "vendor").glob("*.js"), *(STATIC / "fonts").iterdir()]
    }
    assert set(listed) == present
    for name, checksum in listed.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == checksum


def test_every_vendored_package_has_its_licence() -> None:
    assert len(list((STATIC / "vendor/licences").glob("*.txt"))) == 4


def test_no_page_of_ours_names_another_host() -> None:
    ours = [
        *(ROOT / "templates").rglob("*.html"),
        *(STATIC / "css").rglob("*.css"),
        *(STATIC / "js").rglob("*.js"),
    ]
    named = re.compile(r"https?://(?!www\.w3\.org/)[a-z]")
    assert [file for file in ours if named.search(file.read_text())] == []


def test_no_page_of_ours_has_inline_code_or_style() -> None:
    banned = re.compile(
        r"<script>|<style|\sstyle=|\son(click|load|error|submit|change|input)=|hx-on|javascript:"
    )
    templates = (ROOT / "templates").rglob("*.html")
    assert [file for file in templates if banned.search(file.read_text())] == []

"""``docs/scenarios.md`` names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

_HERE = Path(__file__).parent
_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_every_test_that_the_table_of_scenarios_names_exists() -> None:
    named = _NAMED.findall((_HERE.parent / "docs" / "scenarios.md").read_text())
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not re.search(rf"^def {test}\(", (_HERE / file).read_text(), re.MULTILINE)
    ]
    assert named
    assert missing == []


def test_every_row_names_a_test_or_a_reason() -> None:
    rows = (_HERE.parent / "docs" / "scenarios.md").read_text().splitlines()
    cells = [row.split("|")[1:-1] for row in rows if row.startswith("| ")]
    assert [row for row in cells if not all(cell.strip() for cell in row)] == []

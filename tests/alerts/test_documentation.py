"""What docs/alerts.md shows works, and its table is the code's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from txnconsole.alerts.kinds import KINDS
from txnconsole.alerts.signing import (
    REPLAY_WINDOW_SECONDS,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    signature,
)

TEXT = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()


def test_the_receivers_ten_lines_take_what_is_ours_and_nothing_else() -> None:
    [code] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(code, "docs/alerts.md", "exec"), space)  # noqa: S102  # It is our own page.
    body, now = b'{"id":"17"}', 1_700_000_000
    headers = {TIMESTAMP_HEADER: str(now), SIGNATURE_HEADER: signature("txs_a", now, body)}

    def taken(body: bytes = body, key: str = "txs_a", later: float = 0) -> bool:
        return bool(space["is_ours"](headers, body, key, now=now + later))

    assert taken()
    assert taken(later=REPLAY_WINDOW_SECONDS)
    assert not taken(later=REPLAY_WINDOW_SECONDS + 1)
    assert not taken(key="txs_b")
    assert not taken(body=body + b" ")


def test_the_table_of_kinds_names_them_all_and_each_has_its_runbook() -> None:
    table = re.findall(r"^\| `([a-z_]+)` \|", TEXT, re.MULTILINE)
    assert table == [kind.value for kind in KINDS]
    for terms in KINDS.values():
        assert f"**{terms.title}.**" in TEXT

"""The rows of the log page's table, for a browser that draws none itself.

``static/js/log/model.js`` has the same words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from txnconsole.console.log_window import TABLE_ENTRIES

_NAMES = {"m": "Message", "c": "Commit marker", "a": "Abort marker"}
_WORDS = {
    "delivered": "Delivered",
    "held": "Held back: at or past the first unfinished transaction",
    "filtered": "Filtered: its transaction aborted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry: what it is, and what a reader gets of it."""

    offset: int
    name: str
    key: str | None
    txn_id: str | None
    state: str
    reading: str
    reason: str
    #: None for a marker.
    bytes: int | None


def table_rows(window: dict[str, Any], *, isolation: str) -> Iterator[Row]:
    """The entries of a window that its table has, for ``rc`` or ``ru``."""
    start, stable = window["table"], window["summary"]["stable"]
    for offset, kind, txn_id, key, _, size in window["entries"]:
        if not start <= offset < start + TABLE_ENTRIES:
            continue
        state = "NONE" if txn_id is None else window["txns"][txn_id][0]
        is_message = kind == "m"
        reading = _reading(state, is_held=offset > stable, isolation=isolation)
        yield Row(
            offset=offset,
            name=_NAMES[kind],
            key=key,
            txn_id=txn_id,
            state=state,
            reading=reading if is_message else "filtered",
            reason=_WORDS[reading] if is_message else "Control record, never delivered",
            bytes=size if is_message else None,
        )


def _reading(state: str, *, is_held: bool, isolation: str) -> str:
    """What a reader gets of a message."""
    if isolation == "ru":
        return "delivered"
    if is_held:
        return "held"
    return "filtered" if state == "ABORTED" else "delivered"

"""What fits on a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from txnconsole.client.txnctl.partitions import BLOCKERS
from txnconsole.client.txnctl.render import Column
from txnconsole.client.txnctl.session import Output, Session
from txnconsole.client.txnctl.transactions import LIST

_ROWS = [
    {"txn_id": f"0:{number}", "status": "OPEN", "owner": "billing", "client": "billing-7"}
    for number in (12, 13)
]
_ENDED = {
    "txn_id": "12:1234567",
    "status": "COMMITTED",
    "age_ms": 3_599_999,
    "overdue_ms": 0,
    "owner": "a-service-with-a-long-name",
    "client": "a-client-whose-name-is-longer-than-any-terminal-is-wide-" * 3,
    "opened_at": "2026-11-23T00:10:28.123456Z",
    "end_reason": "low_water_mark",
}
_BLOCKER = {
    **_ENDED,
    "status": "COMMITTING",
    "first_offset": 123_456_789,
    "deadline": "2026-11-23T00:10:28.123456Z",
    "stable_position_after": 123_456_790,
    "messages_freed": 1_234_567,
}


def _shown(width: int, columns: tuple[Column, ...], rows: Sequence[object] = _ROWS) -> list[str]:
    def connect() -> None:
        raise AssertionError

    session = Session(connect, Output.TABLE)  # type: ignore[arg-type]
    printed = io.StringIO()
    session.out = Console(file=printed, width=width)
    session.err = Console(file=printed, width=1000)
    session.show_rows(rows, columns)
    return printed.getvalue().splitlines()


def test_a_duration_reads_as_on_a_page() -> None:
    lines = _shown(200, LIST, [_ENDED | {"age_ms": 540_961}])
    assert any(" 9 min 00 s " in line for line in lines)


def test_a_table_that_is_too_wide_for_a_narrow_terminal_is_a_block_for_each_row() -> None:
    lines = _shown(40, LIST)
    assert max(map(len, lines)) <= 40
    assert [line.split() for line in lines if "transaction" in line] == [
        ["transaction", "0:12"],
        ["transaction", "0:13"],
    ]
    assert sum("billing-7" in line for line in lines) == 2


@pytest.mark.parametrize("width", range(60, 131, 5))
@pytest.mark.parametrize(
    ("columns", "row", "whole"),
    [
        (LIST, _ENDED, ["12:1234567", "COMMITTED", "59 min 59 s", "low_water_mark"]),
        (BLOCKERS, _BLOCKER, ["COMMITTING", "123456789", "59 min 59 s", "123456790", "1,234,567"]),
    ],
)
def test_states_ids_and_numbers_are_never_folded(
    width: int, columns: tuple[Column, ...], row: object, whole: list[str]
) -> None:
    lines = _shown(width, columns, [row])
    text = "\n".join(line for line in lines if "Not shown" not in line)
    assert max(map(len, text.splitlines())) <= width
    assert [part for part in whole if part not in text] == []


def test_where_room_is_wanting_moments_and_then_the_last_prose_are_left_out_and_named() -> None:
    *_, told = _shown(100, LIST, [_ENDED])
    assert told == "Not shown, for want of room: OPENED."
    *_, told = _shown(85, LIST, [_ENDED])
    assert told == "Not shown, for want of room: CLIENT, OPENED."


def test_titles_are_folded_between_words_and_what_is_spare_goes_before_prose() -> None:
    columns = (
        Column("PARTITION", "name"),
        Column("LAST ERROR", "error", prose=True),
        Column("LOW WATER MARK", "mark", right=True),
        Column("ATTEMPTS", "attempts", right=True, spare=True),
    )
    row = {"name": "n" * 29, "error": "broker-1 cannot serve this now", "mark": 7, "attempts": 3}
    assert "LOW WATER MARK" in "".join(_shown(100, columns, [row]))
    lines = _shown(64, columns, [row])
    assert {word for line in lines for word in line.split()} >= {"LOW", "WATER", "MARK"}
    assert lines[-1] == "Not shown, for want of room: ATTEMPTS."
    assert any("broker-1" in line for line in lines)


@pytest.mark.parametrize(("width", "columns"), [(40, LIST[:2]), (200, LIST)])
def test_a_table_that_fits_is_a_table(width: int, columns: tuple[Column, ...]) -> None:
    [title, *_] = [line for line in _shown(width, columns) if line.strip()]
    assert "TRANSACTION" in title

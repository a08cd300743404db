"""What fits on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from txnconsole.client.txnctl.render import Column
from txnconsole.client.txnctl.session import Output, Session
from txnconsole.client.txnctl.transactions import LIST

_ROWS = [
    {"txn_id": f"0:{number}", "status": "OPEN", "owner": "billing", "client": "billing-7"}
    for number in (12, 13)
]


def _shown(width: int, columns: tuple[Column, ...]) -> list[str]:
    def connect() -> None:
        raise AssertionError

    session = Session(connect, Output.TABLE)  # type: ignore[arg-type]
    printed = io.StringIO()
    session.out = Console(file=printed, width=width)
    session.show_rows(_ROWS, columns)
    return printed.getvalue().splitlines()


def test_a_table_that_is_too_wide_for_a_narrow_terminal_is_a_block_for_each_row() -> None:
    lines = _shown(40, LIST)
    assert max(map(len, lines)) <= 40
    assert [line.split() for line in lines if "transaction" in line] == [
        ["transaction", "0:12"],
        ["transaction", "0:13"],
    ]
    assert sum("billing-7" in line for line in lines) == 2


@pytest.mark.parametrize(("width", "columns"), [(40, LIST[:2]), (200, LIST)])
def test_a_table_that_fits_is_a_table(width: int, columns: tuple[Column, ...]) -> None:
    [title, *_] = [line for line in _shown(width, columns) if line.strip()]
    assert "TRANSACTION" in title

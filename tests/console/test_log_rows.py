"""What the log page's table says before its script does."""

from __future__ import annotations

import pytest

from engine import Engine
from tests.console.conftest import Orders
from txnconsole.access.payloads import EVERYTHING
from txnconsole.console.log_rows import table_rows
from txnconsole.console.log_window import read_window

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("isolation", "readings"),
    [
        ("rc", "delivered delivered filtered filtered filtered held held held"),
        ("ru", "delivered delivered filtered delivered filtered delivered delivered delivered"),
    ],
)
def test_each_entry_has_what_a_reader_gets_of_it(
    orders: Orders, engine: Engine, isolation: str, readings: str
) -> None:
    window = read_window(engine, orders.partition, at=0, sight=EVERYTHING)
    rows = list(table_rows(window, isolation=isolation))
    assert [row.offset for row in rows] == list(range(8))
    assert [row.reading for row in rows] == readings.split()
    states = "NONE COMMITTED COMMITTED ABORTED ABORTED OPEN OPEN NONE"
    assert [row.state for row in rows] == states.split()
    assert (rows[0].key, rows[0].bytes, rows[2].bytes) == ("k-plain", 5, None)


def test_why_is_said_in_words(orders: Orders, engine: Engine) -> None:
    window = read_window(engine, orders.partition, at=None, sight=EVERYTHING)
    reasons = {row.offset: row.reason for row in table_rows(window, isolation="rc")}
    assert reasons[3] == "Filtered: its transaction aborted"
    assert reasons[4] == "Control record, never delivered"
    assert reasons[7] == "Held back: at or past the first unfinished transaction"

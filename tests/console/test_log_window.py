"""What the log page draws, on the real engine."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.topic_name import PartitionName
from engine.model.txn_status import TxnAction
from tests.console.conftest import Orders, begin, finish, produce
from txnconsole.access.payloads import EVERYTHING
from txnconsole.console.log_window import MAX_ENDED, TABLE_ENTRIES, merged, read_window

pytestmark = pytest.mark.django_db


def test_a_window_holds_every_kind_of_entry_with_its_state(orders: Orders, engine: Engine) -> None:
    window = read_window(engine, orders.partition, at=None, sight=EVERYTHING)
    assert [entry[:3] for entry in window["entries"]] == [
        [0, "m", None],
        [1, "m", str(orders.committed)],
        [2, "c", str(orders.committed)],
        [3, "m", str(orders.aborted)],
        [4, "a", str(orders.aborted)],
        [5, "m", str(orders.open)],
        [6, "m", str(orders.open)],
        [7, "m", None],
    ]
    states = {txn_id: span[:3] for txn_id, span in window["txns"].items()}
    assert states == {
        str(orders.committed): ["COMMITTED", 1, 2],
        str(orders.aborted): ["ABORTED", 3, 4],
        str(orders.open): ["OPEN", 5, 6],
    }
    assert window["summary"]["stable"] == 4
    assert window["summary"]["last"] == 7
    assert window["summary"]["blocker"] == str(orders.open)


def test_an_empty_partition_has_an_empty_window(orders: Orders, engine: Engine) -> None:
    window = read_window(
        engine, PartitionName(orders.partition.topic, 1), at=None, sight=EVERYTHING
    )
    assert window["entries"] == []
    assert (window["base"], window["summary"]["last"]) == (0, -1)
    assert window["export"] is None


def test_past_the_stable_position_the_outcome_is_known_before_readers_get_it(
    orders: Orders, engine: Engine
) -> None:
    later = begin(engine)
    produce(engine, orders.partition, "later", txn_id=later)
    finish(engine, later, TxnAction.COMMIT)
    window = read_window(engine, orders.partition, at=None, sight=EVERYTHING)
    assert window["txns"][str(later)][0] == "COMMITTED"
    assert window["summary"]["stable"] == 4


def test_the_row_of_the_stable_position_is_read_too_when_the_end_is_far(
    orders: Orders, engine: Engine
) -> None:
    for _ in range(10):
        produce(engine, orders.partition, *(str(number) for number in range(64)))
    window = read_window(engine, orders.partition, at=None, sight=EVERYTHING)
    offsets = [entry[0] for entry in window["entries"]]
    assert window["base"] == 320
    assert window["pinned"]
    assert offsets[:64] == list(range(64))
    assert offsets[64:] == list(range(320, 648))


def test_a_window_can_stand_around_any_offset(orders: Orders, engine: Engine) -> None:
    for _ in range(20):
        produce(engine, orders.partition, *(str(number) for number in range(64)))
    window = read_window(engine, orders.partition, at=300, sight=EVERYTHING)
    assert window["base"] == 192
    assert window["at"] == 300
    assert not window["pinned"]
    assert {192, 300, 575} <= {entry[0] for entry in window["entries"]}
    assert (window["table"], window["export"], window["missed"]) == (297, (192, 575), None)


@pytest.mark.parametrize(("at", "table"), [(0, 0), (700, 697), (7, 4), (1285, 1279), (1287, 1279)])
def test_the_table_is_full_wherever_it_stands(
    orders: Orders, engine: Engine, at: int, table: int
) -> None:
    for _ in range(20):
        produce(engine, orders.partition, *(str(number) for number in range(64)))
    window = read_window(engine, orders.partition, at=at, sight=EVERYTHING)
    known = {entry[0] for entry in window["entries"]}
    assert window["table"] == table
    assert set(range(table, table + TABLE_ENTRIES)) <= known


def test_past_the_end_is_the_end_which_is_followed(orders: Orders, engine: Engine) -> None:
    window = read_window(engine, orders.partition, at=10**17, sight=EVERYTHING)
    assert (window["base"], window["at"], window["missed"]) == (0, None, "end")
    assert len(window["entries"]) == 8
    assert window["export"] == (0, 7)


def test_in_an_empty_partition_no_offset_is_missed(orders: Orders, engine: Engine) -> None:
    empty = PartitionName(orders.partition.topic, 1)
    window = read_window(engine, empty, at=5, sight=EVERYTHING)
    assert (window["at"], window["missed"]) == (None, None)


def test_what_ended_in_a_window_keeps_its_span_however_much_has_ended_after_it(
    orders: Orders, engine: Engine
) -> None:
    long = begin(engine)
    produce(engine, orders.partition, "first", txn_id=long)
    produce(engine, orders.partition, *(str(number) for number in range(128)))
    finish(engine, long, TxnAction.COMMIT)
    produce(engine, orders.partition, *(str(number) for number in range(400)))
    for _ in range(MAX_ENDED):
        later = begin(engine)
        produce(engine, orders.partition, "later", txn_id=later)
        finish(engine, later, TxnAction.COMMIT)
    window = read_window(engine, orders.partition, at=137, sight=EVERYTHING)
    assert window["base"] == 64
    assert window["txns"][str(long)][:3] == ["COMMITTED", 8, 137]
    assert str(later) not in window["txns"]


def test_ranges_that_meet_are_read_once() -> None:
    assert merged([(64, 64), (0, 64), (200, 10), (100, 50)]) == [(0, 150), (200, 10)]
    assert merged([(5, 3), (5, 9)]) == [(5, 9)]

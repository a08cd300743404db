from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from txnconsole.client.partitioner import partition_for_key
from txnconsole.pipeline.outgoing import (
    BATCH_BYTES,
    BATCH_MESSAGES,
    WAITING_BYTES,
    Collector,
    Outgoing,
)

_SCHEMA = pa.schema(
    [
        ("payload", pa.binary()),
        ("key", pa.string()),
        ("partition", pa.int32()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("event_time", pa.timestamp("us", tz="UTC")),
    ]
)


def _rows(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict.fromkeys(_SCHEMA.names) | row for row in rows], _SCHEMA)


def _all(collector: Collector, *batches: pa.RecordBatch) -> list[Outgoing]:
    return [full for rows in batches for full in collector.add(rows)] + collector.rest()


def _messages(batch: Outgoing) -> list[dict[str, Any]]:
    return msgspec.msgpack.decode(batch.messages, type=list[dict[str, Any]])


def _payloads(batches: list[Outgoing]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for batch in batches:
        found.setdefault(batch.partition, []).extend(each["payload"] for each in _messages(batch))
    return found


def test_a_null_payload_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be null"):
        list(Collector(1).add(_rows({"payload": None})))


def test_a_row_goes_to_the_partition_it_names_else_to_its_keys_else_each_in_turn() -> None:
    rows = [
        {"payload": b"named", "partition": 3, "key": "UA"},
        {"payload": b"keyed", "key": "UA"},
        *({"payload": b"%d" % turn} for turn in range(5)),
    ]
    found = _payloads(_all(Collector(4), _rows(*rows[:4]), _rows(*rows[4:])))
    home = partition_for_key("UA", 4)
    wanted: dict[int, list[bytes]] = {}
    for partition, payload in [
        (3, b"named"), (home, b"keyed"), (0, b"0"), (1, b"1"), (2, b"2"), (3, b"3"), (0, b"4")
    ]:  # fmt: skip
        wanted.setdefault(partition, []).append(payload)
    assert {key: sorted(each) for key, each in found.items()} == {
        key: sorted(each) for key, each in wanted.items()
    }


def test_messages_of_one_partition_keep_their_order_over_batches_of_rows() -> None:
    payloads = [b"%06d" % number for number in range(3 * BATCH_MESSAGES)]
    parts = [payloads[:10], payloads[10:5000], payloads[5000:]]
    batches = [
        pa.RecordBatch.from_pydict({"payload": part, "key": ["k"] * len(part)}) for part in parts
    ]
    found = _all(Collector(3), *batches)
    assert [len(_messages(batch)) for batch in found] == [BATCH_MESSAGES] * 3
    assert list(_payloads(found).values()) == [payloads]


def test_a_batch_is_cut_by_its_bytes_and_one_large_message_is_a_batch() -> None:
    small, large = b"s" * (BATCH_BYTES // 3), b"l" * (2 * BATCH_BYTES)
    rows = [{"payload": each} for each in (small, small, small, large, small)]
    found = _all(Collector(1), _rows(*rows))
    assert [[message["payload"] for message in _messages(batch)] for batch in found] == [
        [small, small],
        [small],
        [large],
        [small],
    ]


def test_properties_and_keys_count_as_bytes_too() -> None:
    row = {
        "payload": b"",
        "key": "k" * (BATCH_BYTES // 4),
        "properties": [("n", "v" * (BATCH_BYTES // 4))],
    }
    assert [len(_messages(each)) for each in _all(Collector(1), _rows(*[row] * 4))] == [1, 1, 1, 1]


def test_no_rows_are_no_batch() -> None:
    assert _all(Collector(2), _rows().slice(0, 0)) == []


def test_every_message_goes_out_once_however_rows_come() -> None:
    rows = _rows(*({"payload": b"%d" % number, "key": f"{number % 7}"} for number in range(100)))
    whole = _payloads(_all(Collector(3), rows))
    parts = [rows.slice(begun, 9) for begun in range(0, 100, 9)]
    assert _payloads(_all(Collector(3), *parts)) == whole
    assert sum(map(len, whole.values())) == 100


def test_a_batch_tells_how_many_messages_it_has() -> None:
    for count in (1, 15, 16, BATCH_MESSAGES):
        rows = pa.RecordBatch.from_pydict({"payload": [b"x"] * count})
        assert [len(_messages(each)) for each in _all(Collector(1), rows)] == [count]


def test_a_message_that_waits_keeps_nothing_of_the_rows_that_it_came_with() -> None:
    """A partition that gets few of a task's messages would keep all that have gone elsewhere."""
    collector = Collector(2)
    partitions = [1] + [0] * (BATCH_MESSAGES - 1)
    before = pa.total_allocated_bytes()
    for _ in range(50):
        rows = {"payload": [b"x" * 100] * BATCH_MESSAGES, "partition": partitions}
        list(collector.add(pa.RecordBatch.from_pydict(rows)))
    del rows
    assert pa.total_allocated_bytes() - before < BATCH_MESSAGES * 100
    assert [len(_messages(batch)) for batch in collector.rest() if batch.partition == 1] == [50]


def test_what_waits_over_all_partitions_goes_out_when_it_is_much() -> None:
    wide = WAITING_BYTES // (BATCH_BYTES // 2)
    collector = Collector(2 * wide)
    one = {"payload": [b"x" * (BATCH_BYTES // 2)]}
    for turn in range(wide - 1):
        row = pa.RecordBatch.from_pydict(one | {"partition": [turn]})
        assert not list(collector.add(row))
    out = list(collector.add(pa.RecordBatch.from_pydict(one | {"partition": [wide]})))
    assert [batch.partition for batch in out] == [*range(wide - 1), wide]
    assert collector.rest() == []

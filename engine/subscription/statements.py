"""The statements that every call on a subscription needs, prepared (engine.postgres.prepared), and
the types of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from engine.log.statements import WINDOW
from engine.model.ranges import Ranges
from engine.postgres.prepared import (
    BOOL,
    BYTEA,
    INT4,
    INT8,
    INT8MULTIRANGE,
    TEXT,
    Prepared,
    Type,
    array_of,
)
from engine.sql import queries

_INT8S, _INT4S, _TEXTS = array_of(INT8), array_of(INT4), array_of(TEXT)
_RANGES = array_of(INT8MULTIRANGE)


class ReadRow(NamedTuple):
    """A row of functions/broker/read_cursors.sql."""

    partition_id: int
    number: int
    buffer: str
    online: bool
    stable_position: int | None
    now_ms: int
    log_start_offset: int
    open_ledger: int
    open_since: int
    cursor_version: int
    mark_delete: int
    acked: Ranges | None
    acked_lowers: Sequence[int] | None
    acked_uppers: Sequence[int]
    dead: Ranges | None
    dispatch_version: int | None
    state: bytes | None
    pending_tcs: Sequence[int] | None
    pending_sequences: Sequence[int] | None
    pending_cumulative: Sequence[bool] | None
    pending_lowers: Sequence[int] | None
    pending_uppers: Sequence[int] | None
    tentative_tcs: Sequence[int] | None
    tentative_sequences: Sequence[int] | None
    tentative_calls: Sequence[int] | None
    tentative_lowers: Sequence[int] | None
    tentative_uppers: Sequence[int] | None
    window_from: int
    window_upper: int
    kinds: Sequence[str] | None
    first_offsets: Sequence[int]
    last_offsets: Sequence[int]
    ledger_ids: Sequence[int]
    tcs: Sequence[int | None]
    sequences: Sequence[int | None]
    sequence_ids: Sequence[int | None]
    publish_times: Sequence[datetime]
    producer_names: Sequence[str | None]
    bodies: Sequence[bytes | None]
    aborted_tcs: Sequence[int] | None
    aborted_sequences: Sequence[int]
    aborted_firsts: Sequence[int]
    aborted_lasts: Sequence[int]


#: In the place of a partition's number: the topic has none on this broker, or all are offline.
NO_PARTITION, ALL_OFFLINE = -1, -2


class Deliverable(NamedTuple):
    """A row of ``deliverable``: a partition that may have something to deliver. When there is none,
    ``number`` may be :data:`NO_PARTITION` or :data:`ALL_OFFLINE`, in the only row."""

    partition_id: int
    number: int
    needs_cursor: bool


DELIVERABLE = Prepared(
    "deliverable",
    queries("subscription")["deliverable"],
    {"subscription_id": INT8, "topic_id": INT8, "taken_over": BOOL},
    [INT8, INT4, BOOL],
)
_READ: list[Type[Any]] = [
    *(INT8, INT4, TEXT, BOOL, INT8, INT8),
    *(INT8, INT8, INT8),
    *(INT8, INT8, INT8MULTIRANGE, _INT8S, _INT8S, INT8MULTIRANGE),
    *(INT8, BYTEA),
    *(_INT4S, _INT8S, array_of(BOOL), _INT8S, _INT8S),
    *(_INT4S, _INT8S, _INT8S, _INT8S, _INT8S),
    *(INT8, INT8, *WINDOW),
]
READ = Prepared(
    "read_cursors",
    queries("subscription")["read_cursors"],
    {
        "subscription_id": INT8,
        "partition_ids": _INT8S,
        "lock": BOOL,
        "room": INT8,
        "ahead": INT8,
        "max_bytes": INT8,
    },
    _READ,
)
#: What is stored of each partition, and the steps of the pending-ack log.
_STORED: dict[str, Type[Any]] = {
    "partition_ids": _INT8S,
    "cursor_versions": _INT8S,
    "dispatch_versions": _INT8S,
    "mark_deletes": _INT8S,
    "acked": _RANGES,
    "due_offsets": _INT8S,
    "next_deadlines": _INT8S,
    "states": array_of(BYTEA),
    "dead": _RANGES,
    "undead": _RANGES,
    "targets": _INT4S,
    "step_partitions": _INT8S,
    "step_tcs": _INT4S,
    "step_sequences": _INT8S,
    "step_ops": _TEXTS,
    "step_types": _TEXTS,
    "step_ranges": _RANGES,
    "step_calls": _INT8S,
}
STORE = Prepared(
    "store_cursors",
    queries("subscription")["store_cursors"],
    {"subscription_id": INT8, **_STORED, "durable": BOOL, "serving": BOOL},
    [TEXT, INT8, INT8, INT8],
)
_STORED_ONE: dict[str, Type[Any]] = {
    "subscription_id": INT8,
    "partition_id": INT8,
    "cursor_version": INT8,
    "dispatch_version": INT8,
    "due_offset": INT8,
    "next_deadline": INT8,
    "state": BYTEA,
    "durable": BOOL,
}
#: The common cases: one partition, without dead letters and steps. In the first the cursor stays as
#: it is, in the second it moves.
STORE_DISPATCH = Prepared(
    "store_dispatch",
    queries("subscription")["store_dispatch"],
    _STORED_ONE,
    [INT8, INT8, INT8, TEXT],
)
STORE_ONE = Prepared(
    "store_cursor",
    queries("subscription")["store_cursor"],
    {**_STORED_ONE, "mark_delete": INT8, "acked": INT8MULTIRANGE},
    [INT8, INT8, INT8, TEXT],
)
#: For one partition, whose messages a transaction claims by a call on one broker.
STORE_CLAIM = Prepared(
    "store_claim",
    queries("subscription")["store_claim"],
    {
        **{name: type_ for name, type_ in _STORED_ONE.items() if name != "durable"},
        "tc_id": INT4,
        "sequence": INT8,
        "ack_type": TEXT,
        "ranges": INT8MULTIRANGE,
    },
    [INT8, INT8],
)
OPEN_ACK_ENDS = Prepared(
    "open_ack_ends",
    queries("subscription")["open_ack_ends"],
    {"topic_id": INT8, "name": TEXT, "tc_ids": _INT4S, "sequences": _INT8S, "lock": BOOL},
    [INT8, _INT4S, _INT8S, array_of(BOOL), _INT8S, *_READ],
)
_CONCLUDED: dict[str, Type[Any]] = {
    "subscription_id": INT8,
    "tc_ids": _INT4S,
    "sequences": _INT8S,
    "aborts": array_of(BOOL),
    "messages": _INT8S,
    "mark_tcs": _INT4S,
    "marks": _INT8S,
}
CONCLUDE_ACK_ENDS = Prepared(
    "conclude_ack_ends",
    queries("subscription")["conclude_ack_ends"],
    _CONCLUDED,
    [BOOL],
)
#: Both of it, of what was decided on without the locks.
END_ACKS = Prepared("end_acks", queries("subscription")["end_acks"], _CONCLUDED | _STORED, [TEXT])

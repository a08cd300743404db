"""The statement on which every fetch rests, binary both ways."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from engine.postgres.prepared import (
    BOOL,
    BYTEA,
    CHAR,
    INT4,
    INT8,
    TEXT,
    TIMESTAMPTZ,
    Prepared,
    Type,
    array_of,
)
from engine.sql import queries

_INT8S, _INT4S, _TEXTS = array_of(INT8), array_of(INT4), array_of(TEXT)


class FetchRow(NamedTuple):
    """The row of ``fetch``."""

    online: bool
    next_offset: int
    log_start_offset: int
    ledger_id: int
    stable_position: int
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


#: The columns of entries, and of the aborted transactions that meet them: an array of each.
WINDOW: list[Type[Any]] = [
    *(array_of(CHAR), _INT8S, _INT8S, _INT8S, _INT4S, _INT8S, _INT8S, array_of(TIMESTAMPTZ)),
    *(_TEXTS, array_of(BYTEA)),
    *(_INT4S, _INT8S, _INT8S, _INT8S),
]
FETCH = Prepared(
    "fetch",
    queries("broker")["fetch"],
    {
        "partition_id": INT8,
        "from_offset": INT8,
        "upper": INT8,
        "max_bytes": INT8,
        "committed": BOOL,
    },
    [BOOL, INT8, INT8, INT8, INT8, *WINDOW],
)

"""The statements of a transaction's life that every one of them asks, binary both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from engine.postgres.prepared import (
    BOOL,
    INT4,
    INT8,
    JSON,
    JSONB,
    TEXT,
    TIMESTAMPTZ,
    Prepared,
    Type,
    array_of,
)
from engine.sql import queries

_INT8S, _INT4S, _TEXTS = array_of(INT8), array_of(INT4), array_of(TEXT)
_TXN = {"tc_id": INT4, "sequence": INT8}
_HEADER: list[Type[Any]] = [
    *(INT4, INT8, TEXT, TEXT, TEXT, TEXT, JSONB, TIMESTAMPTZ, INT8),
    *(TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TEXT, TEXT),
]


class WholeRow(NamedTuple):
    """A row of ``open_txn``, ``decide`` and ``whole_txn``; participants are None without any."""

    tc_id: int
    sequence: int
    status: str
    owner: str
    client: str
    client_host: str | None
    properties: Mapping[str, str]
    opened_at: datetime
    timeout_ms: int
    deadline: datetime
    decided_at: datetime | None
    ended_at: datetime | None
    end_reason: str | None
    end_detail: str | None
    now: datetime
    partitions: Sequence[Mapping[str, Any]] | None = None
    subscriptions: Sequence[Mapping[str, Any]] | None = None


class Header(NamedTuple):
    """What a header says of a transaction."""

    status: str
    owner: str


OPEN = Prepared(
    "open_txn",
    queries("coordinator")["open_txn"],
    {
        "tc_id": INT4,
        "owner": TEXT,
        "client": TEXT,
        "client_host": TEXT,
        "properties": TEXT,
        "timeout_ms": INT8,
    },
    [*_HEADER, TIMESTAMPTZ],
)
WHOLE = Prepared(
    "whole_txn",
    queries("coordinator")["whole_txn"],
    _TXN,
    [*_HEADER, TIMESTAMPTZ, JSON, JSON],
)
DECIDE = Prepared(
    "decide",
    queries("coordinator")["decide"],
    _TXN | {"decision": TEXT, "reason": TEXT, "detail": TEXT, "owner": TEXT, "trace_parent": TEXT},
    [*_HEADER, TIMESTAMPTZ, JSON, JSON],
)
JOIN_PARTITIONS = Prepared(
    "join_partitions",
    queries("coordinator")["join_partitions"],
    _TXN
    | {
        "owner": TEXT,
        "topic_ids": _INT8S,
        "topics": _TEXTS,
        "partitions": _INT4S,
        "brokers": _TEXTS,
    },
    [TEXT, TEXT, BOOL],
)
JOIN_SUBSCRIPTIONS = Prepared(
    "join_subscriptions",
    queries("coordinator")["join_subscriptions"],
    _TXN
    | {
        "owner": TEXT,
        "topic_ids": _INT8S,
        "topics": _TEXTS,
        "subscriptions": _TEXTS,
        "brokers": _TEXTS,
    },
    [TEXT, TEXT, BOOL],
)
#: For one alone: a third of the server's time.
STATUS = Prepared("txn_status", queries("coordinator")["txn_status"], _TXN, [TEXT, TEXT])
STATUSES = Prepared(
    "txn_statuses",
    queries("coordinator")["txn_statuses"],
    {"tc_ids": _INT4S, "sequences": _INT8S},
    [TEXT, TEXT],
)

"""The statements that every transaction needs, prepared (engine.postgres.prepared), and the types
of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from engine.model.txn_id import TxnID
from engine.postgres.prepared import (
    BOOL,
    FLOAT8,
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

#: The files of statements for the coordinators' database.
FILES = ("coordinator", "finalization", "topics", "figures", "coordinator_inspection")

_INT8S, _INT4S, _TEXTS = array_of(INT8), array_of(INT4), array_of(TEXT)
_TXN = {"tc_id": INT4, "sequence": INT8}
_TXNS: dict[str, Type[Any]] = {"tc_ids": _INT4S, "sequences": _INT8S}
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


class DueRow(NamedTuple):
    """A row of ``due_ends``; fields that its kind does not have are None
    (functions/coordinator/due_ends.sql). engine.coordinator.due makes values of it."""

    kind: str
    tc_id: int
    sequence: int
    status: str
    decided_at: datetime
    trace_parent: str | None
    topic_id: int
    topic: str
    partition: int
    subscription: str
    broker: str
    number: int


class RecordedRow(NamedTuple):
    """A row of ``record_ends``. Of ``kind`` partition: a participant that was recorded, with its
    state. Of ``kind`` transaction: a transaction that has ended, with its status and how long it
    took."""

    kind: str
    tc_id: int
    sequence: int
    state: str
    at: datetime
    end_reason: str | None
    execution_seconds: float | None
    finalize_seconds: float | None

    @property
    def txn_id(self) -> TxnID:
        """The transaction that the row is about."""
        return TxnID(self.tc_id, self.sequence)


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
#: For one transaction; it takes the server a third of the time of :data:`STATUSES`.
STATUS = Prepared("txn_status", queries("coordinator")["txn_status"], _TXN, [TEXT, TEXT])
STATUSES = Prepared(
    "txn_statuses",
    queries("coordinator")["txn_statuses"],
    _TXNS,
    [TEXT, TEXT],
)
DUE_ENDS = Prepared(
    "due_ends",
    queries("finalization")["due_ends"],
    {"tc_ids": _INT4S, "limit": INT4},
    [
        *(TEXT, INT4, INT8, TEXT, TIMESTAMPTZ, TEXT),
        *(INT8, TEXT, INT4, TEXT, TEXT, INT8),
    ],
)
CONFIRMED_ACKS = Prepared(
    "confirmed_acks", queries("coordinator")["confirmed_acks"], _TXNS, [INT4, INT8, INT8]
)
RECORD_ENDS = Prepared(
    "record_ends",
    queries("finalization")["record_ends"],
    {
        "tc_ids": _INT4S,
        "sequences": _INT8S,
        "topic_ids": _INT8S,
        "partitions": _INT4S,
        "states": _TEXTS,
        "first_offsets": _INT8S,
        "last_offsets": _INT8S,
        "messages": _INT8S,
        "errors": _TEXTS,
        "ack_tc_ids": _INT4S,
        "ack_sequences": _INT8S,
        "ack_topic_ids": _INT8S,
        "subscriptions": _TEXTS,
        "brokers": _TEXTS,
        "ack_states": _TEXTS,
        "acked_messages": _INT8S,
        "ack_errors": _TEXTS,
        "concluded_tc_ids": _INT4S,
        "concluded_sequences": _INT8S,
    },
    [TEXT, INT4, INT8, TEXT, TIMESTAMPTZ, TEXT, FLOAT8, FLOAT8],
)

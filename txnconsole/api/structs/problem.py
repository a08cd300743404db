"""Errors as RFC 9457 problem details (design/api.md, Conventions)."""

from __future__ import annotations

import msgspec


class FieldError(msgspec.Struct, kw_only=True):
    """What is wrong with one field; the path looks like ``messages[0].payload``."""

    field: str
    message: str


class Difference(msgspec.Struct, kw_only=True):
    """A setting with the existing value and the one that was asked for."""

    setting: str
    has: str | int | bool | None
    wanted: str | int | bool | None


class Conflict(msgspec.Struct, kw_only=True):
    """A message that an acknowledgement meets: held by a transaction or, where `txn_id` is null,
    acknowledged. `message_id` is null for one that a cumulative acknowledgement only reaches."""

    partition: int
    offset: int
    message_id: str | None
    txn_id: str | None


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """``code`` is stable and for programs, ``detail`` is for people. What stands below ``errors``
    is there where the code has it. ``more`` counts conflicts beyond those that are named, and
    ``holders`` are transactions, some of them where they are many."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool = False
    request_id: str = ""
    errors: list[FieldError] = []
    txn_id: str = ""
    current_status: str = ""
    end_reason: str = ""
    replayed: list[str] = []
    conflicts: list[Conflict] = []
    more: int = 0
    partition: int = 0
    differences: list[Difference] = []
    holders: list[str] = []
    state: str = ""
    current_state: str = ""
    last_sequence_id: int = 0
    truncated_to: int = 0
    next_cursor: str = ""
    file: str = ""
    count: int = 0
    expected_count: int = 0
    limit: int = 0
    limit_bytes: int = 0
    limit_messages: int = 0
    limit_ms: int = 0

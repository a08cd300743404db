"""The state of a transaction buffer as a snapshot keeps it, and how the log's entries change it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from engine.model.errors import EngineError
from engine.model.txn_id import TxnID

_VERSION = 1


class CorruptSnapshot(EngineError):
    """A snapshot cannot be read back."""

    code = "CorruptSnapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingSpan:
    """What an ongoing transaction has written in a log."""

    first_offset: int
    last_offset: int
    messages: int
    first_append_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """What one transaction has after a position of the log: its data, and its marker."""

    txn_id: TxnID
    data: OngoingSpan | None
    marker_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferState:
    """The state of a buffer at ``position``, the last offset that it covers.

    It includes the open segment's totals and the count of aborted transactions, so that recovery
    need not count what lies before the position.
    """

    position: int
    ledger_id: int
    segment_entries: int
    segment_bytes: int
    aborted_txns: int
    ongoing: Mapping[TxnID, OngoingSpan] = field(default_factory=dict)

    @property
    def stable_position(self) -> int:
        """(Lowest first offset of an ongoing transaction) - 1, or the last offset (§4.1)."""
        first = min((span.first_offset for span in self.ongoing.values()), default=None)
        return self.position if first is None else first - 1


#: The state of an empty log. Any state can be rebuilt from it and the whole log.
EMPTY = BufferState(position=-1, ledger_id=-1, segment_entries=0, segment_bytes=0, aborted_txns=0)


def replay(
    ongoing: Mapping[TxnID, OngoingSpan], tails: Iterable[LogTail]
) -> dict[TxnID, OngoingSpan]:
    """Apply the entries after a snapshot to its ongoing transactions (semantics §5).

    A marker ends its transaction; data begins or extends it. There is no data after a marker,
    because the fence refuses it.
    """
    state = dict(ongoing)
    for tail in tails:
        if tail.marker_offset is not None:
            state.pop(tail.txn_id, None)
        elif tail.data is not None:
            known = state.get(tail.txn_id)
            state[tail.txn_id] = (
                tail.data
                if known is None
                else OngoingSpan(
                    first_offset=known.first_offset,
                    last_offset=tail.data.last_offset,
                    messages=known.messages + tail.data.messages,
                    first_append_at=known.first_append_at,
                )
            )
    return state


class _Stored(msgspec.Struct, kw_only=True):
    version: int
    position: int
    stable_position: int
    ledger_id: int
    segment_entries: int
    segment_bytes: int
    aborted_txns: int
    ongoing: list[tuple[str, int, int, int, datetime]]


_decoder = msgspec.json.Decoder(_Stored)


def dump(state: BufferState) -> bytes:
    """Encode a state: the SHA-256 of its JSON on the first line, then the JSON, for people to
    read."""
    body = msgspec.json.encode(
        _Stored(
            version=_VERSION,
            position=state.position,
            stable_position=state.stable_position,
            ledger_id=state.ledger_id,
            segment_entries=state.segment_entries,
            segment_bytes=state.segment_bytes,
            aborted_txns=state.aborted_txns,
            ongoing=[
                (str(txn), span.first_offset, span.last_offset, span.messages, span.first_append_at)
                for txn, span in sorted(state.ongoing.items())
            ],
        )
    )
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def load(data: bytes) -> BufferState:
    """Decode a state.

    Raises:
        CorruptSnapshot: the bytes are not what :func:`dump` wrote.
    """
    digest, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise CorruptSnapshot("The snapshot's checksum does not fit its content.")
    try:
        stored = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise CorruptSnapshot(f"The snapshot cannot be read: {error}") from error
    if stored.version != _VERSION:
        raise CorruptSnapshot(f"Unknown snapshot version {stored.version}.")
    return BufferState(
        position=stored.position,
        ledger_id=stored.ledger_id,
        segment_entries=stored.segment_entries,
        segment_bytes=stored.segment_bytes,
        aborted_txns=stored.aborted_txns,
        ongoing={
            TxnID.parse(txn): OngoingSpan(
                first_offset=first, last_offset=last, messages=messages, first_append_at=at
            )
            for txn, first, last, messages, at in stored.ongoing
        },
    )

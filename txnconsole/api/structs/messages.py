"""Messages as they are fetched and received (design/api.md, Topics, partitions, messages); how they
are produced is in :mod:`.batches`.

JSON and MessagePack have the same shape, except for the payload. In JSON it is text or base64, as
``payload_encoding`` says; in MessagePack it is raw bytes, and ``payload_encoding`` is ``bytes``.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from engine.model.message import (
    EntryKind,
    Isolation,
    StoredMessage,
    Visibility,
)
from engine.model.moment import time_text
from engine.model.partition import Fetched
from engine.model.read_position import ReadPosition
from engine.model.topic_name import PartitionName
from txnconsole.access.payloads import EVERYTHING, Sight
from txnconsole.api.decoding import invalid
from txnconsole.api.limits import FETCH_BYTES, FETCH_MESSAGES
from txnconsole.api.structs.fields import (
    Answer,
    Cursor,
    MessageIDText,
    Offset,
    Query,
    Time,
    TxnIDText,
    WaitMs,
    optional_time,
)

_NOTHING: Mapping[str, Any] = {}


class FetchQuery(Query):
    from_offset: (
        Annotated[Offset, msgspec.Meta(description="0 when neither it nor `cursor` is given.")]
        | None
    ) = None
    max_messages: Annotated[int, msgspec.Meta(ge=1, le=FETCH_MESSAGES)] = 500
    max_bytes: (
        Annotated[
            int,
            msgspec.Meta(
                ge=1,
                le=FETCH_BYTES,
                description="How many bytes the answered batches may have, uncompressed, with keys"
                f" and properties; {FETCH_BYTES} when it is left out. The first always comes.",
            ),
        ]
        | None
    ) = None
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    order: Annotated[
        Literal["published", "committed"],
        msgspec.Meta(
            description="`published` is by offset; `committed` hands transactions out whole, in the"
            " order in which they committed, and is never held up by one that is open."
        ),
    ] = "published"
    cursor: (
        Annotated[
            Cursor,
            msgspec.Meta(
                description="The `next_cursor` of the answer before, of this partition and in the"
                " same order; in place of `from_offset`."
            ),
        ]
        | None
    ) = None
    filter: (
        Annotated[
            Literal["client"],
            msgspec.Meta(
                description="Leave aborted messages in and give the markers; the client filters."
            ),
        ]
        | None
    ) = None
    view: (
        Annotated[
            Literal["log"], msgspec.Meta(description="The log as it stands, markers included.")
        ]
        | None
    ) = None
    wait_ms: WaitMs = 0

    @property
    def engine_isolation(self) -> Isolation:
        return Isolation(self.isolation)

    def start(self, partition: PartitionName) -> ReadPosition:
        """Where the fetch begins.

        Raises:
            InvalidRequest: the cursor is not of this partition, or of another order.
        """
        if self.cursor is None:
            return ReadPosition(offset=self.from_offset or 0)
        start = ReadPosition.decode(self.cursor, partition)
        if self.order == "published" and start.within is not None:
            raise invalid("cursor", "is of order=committed")
        return start

    @property
    def until_stable(self) -> bool:
        """Whether it shows only what is below the stable position, not the whole log."""
        return (
            self.isolation == "read_committed" and self.order == "published" and self.view is None
        )

    def is_answered_by(self, start: ReadPosition, found: Fetched) -> bool:
        """Whether waiting is over: there are messages, or more to read behind what held none."""
        end = found.stable_position if self.until_stable else found.last_offset
        return bool(found.messages) or start.offset < found.next_offset <= end

    def check(self) -> None:
        """Refuse parameters that contradict one another.

        Raises:
            InvalidRequest: two of them do.
        """
        if self.cursor is not None:
            if self.view is not None:
                raise invalid("cursor", "does not go with view=log; use from_offset")
            if self.from_offset is not None:
                raise invalid("from_offset", "does not go with cursor, which says where to begin")
        if self.order == "committed":
            if self.isolation != "read_committed":
                raise invalid("isolation", "must be read_committed with order=committed")
            if self.filter is not None:
                raise invalid("filter", "has nothing to filter with order=committed")
            if self.view is not None:
                raise invalid("view", "shows the log as published; leave out order=committed")
        if self.filter is not None and self.isolation != "read_committed":
            raise invalid("filter", "has nothing to filter with isolation=read_uncommitted")
        if self.filter is not None and self.view is not None:
            raise invalid("filter", "does not go with view=log, which shows everything")


class _MessageHead(Answer, kw_only=True):
    message_id: MessageIDText
    offset: int
    partition: int
    kind: EntryKind
    txn_id: TxnIDText | None
    key: str | None
    properties: dict[str, str]
    event_time: Time | None
    publish_time: Time
    producer_name: str | None
    sequence_id: int | None
    visibility: Annotated[
        Visibility | msgspec.UnsetType, msgspec.Meta(description="With `view=log`.")
    ] = msgspec.UNSET
    readable_at: Annotated[
        int | msgspec.UnsetType,
        msgspec.Meta(
            description="With `order=committed`: its own offset, or that of its transaction's"
            " commit marker."
        ),
    ] = msgspec.UNSET
    redelivery_count: Annotated[
        int | msgspec.UnsetType, msgspec.Meta(description="When received.")
    ] = msgspec.UNSET
    payload_masked: Annotated[
        bool | msgspec.UnsetType,
        msgspec.Meta(
            description="True: of the payload, something or all is hidden from the caller."
        ),
    ] = msgspec.UNSET


class Message(_MessageHead, kw_only=True):
    """A payload that is valid UTF-8 is given as text, any other as base64."""

    payload: str
    payload_encoding: Literal["utf-8", "base64"]

    def in_other_form(self) -> PackedMessage:
        text = self.payload
        raw = text.encode() if self.payload_encoding == "utf-8" else binascii.a2b_base64(text)
        return PackedMessage(
            **msgspec.structs.asdict(self) | {"payload": raw, "payload_encoding": "bytes"}
        )


class PackedMessage(_MessageHead, kw_only=True):
    """A message in MessagePack, with its payload as bytes."""

    payload: bytes
    payload_encoding: Literal["bytes"] = "bytes"

    def in_other_form(self) -> Message:
        payload, encoding = _text_of(self.payload)
        return Message(
            **msgspec.structs.asdict(self) | {"payload": payload, "payload_encoding": encoding}
        )


class AbortedTransaction(Answer):
    txn_id: TxnIDText
    first_offset: int


class TransactionMarker(Answer):
    offset: int
    txn_id: TxnIDText
    kind: EntryKind


class _Positions(Answer, kw_only=True):
    """``aborted_transactions`` is null for READ_UNCOMMITTED, and never for READ_COMMITTED.

    The next fetch goes on at ``next_cursor``. With ``order=committed`` a transaction larger than
    one answer would begin again at ``next_offset``.
    """

    aborted_transactions: list[AbortedTransaction] | None
    stable_position: int
    last_offset: int
    next_offset: int
    log_start_offset: int
    next_cursor: Annotated[
        str | msgspec.UnsetType, msgspec.Meta(description="Not with `view=log`.")
    ] = msgspec.UNSET
    markers: Annotated[
        list[TransactionMarker] | msgspec.UnsetType,
        msgspec.Meta(description="With `filter=client`: the markers in between."),
    ] = msgspec.UNSET


class FetchedMessages(_Positions, kw_only=True):
    messages: list[Message]


class PackedFetchedMessages(_Positions, kw_only=True):
    messages: list[PackedMessage]


class ReceivedMessages(Answer):
    messages: list[Message]

    def in_other_form(self) -> PackedReceivedMessages:
        return PackedReceivedMessages(messages=[each.in_other_form() for each in self.messages])


class PackedReceivedMessages(Answer):
    messages: list[PackedMessage]

    def in_other_form(self) -> ReceivedMessages:
        return ReceivedMessages(messages=[each.in_other_form() for each in self.messages])


def fetched(answer: Fetched, *, packed: bool, view_log: bool, sight: Sight) -> Answer:
    """The answer to a fetch, with what the caller may see of each message. With ``view_log`` each
    entry has its visibility; in committed order, each has the offset at which it became readable.
    """
    positions = _positions(answer)
    messages = answer.messages
    extras = [_extra(each, view_log=view_log) for each in messages]
    if sight is not EVERYTHING:
        shown = [sight.shown(each) for each in messages]
        messages = tuple(one.message for one in shown)
        extras = [
            {**extra, "payload_masked": True} if one.masked or not one.payload else extra
            for extra, one in zip(extras, shown, strict=True)
        ]
    pairs = zip(messages, extras, strict=True)
    if packed:
        packed_messages = [_packed_message(each, extra) for each, extra in pairs]
        return PackedFetchedMessages(messages=packed_messages, **positions)
    return FetchedMessages(messages=[_message(each, extra) for each, extra in pairs], **positions)


def _extra(message: StoredMessage, *, view_log: bool) -> Mapping[str, Any]:
    if view_log:
        return {"visibility": message.visibility}
    return _NOTHING if message.readable_at is None else {"readable_at": message.readable_at}


def received(messages: Sequence[StoredMessage], *, packed: bool) -> Answer:
    """The answer to a receive call."""
    pairs = [(each, {"redelivery_count": each.redelivery_count}) for each in messages]
    if packed:
        return PackedReceivedMessages(
            messages=[_packed_message(each, extra) for each, extra in pairs]
        )
    return ReceivedMessages(messages=[_message(each, extra) for each, extra in pairs])


def _positions(answer: Fetched) -> dict[str, Any]:
    aborted = answer.aborted_transactions
    return {
        "aborted_transactions": None
        if aborted is None
        else [
            AbortedTransaction(txn_id=str(each.txn_id), first_offset=each.first_offset)
            for each in aborted
        ],
        "stable_position": answer.stable_position,
        "last_offset": answer.last_offset,
        "next_offset": answer.next_offset,
        "log_start_offset": answer.log_start_offset,
        "next_cursor": msgspec.UNSET if answer.next_cursor is None else answer.next_cursor,
        "markers": msgspec.UNSET
        if answer.markers is None
        else [
            TransactionMarker(offset=each.offset, txn_id=str(each.txn_id), kind=each.kind)
            for each in answer.markers
        ],
    }


def _message(message: StoredMessage, extra: Mapping[str, Any]) -> Message:
    payload, encoding = _text_of(message.payload)
    return Message(payload=payload, payload_encoding=encoding, **_head(message), **extra)


def _text_of(payload: bytes) -> tuple[str, Literal["utf-8", "base64"]]:
    try:
        return payload.decode(), "utf-8"
    except UnicodeDecodeError:
        return binascii.b2a_base64(payload, newline=False).decode(), "base64"


def _packed_message(message: StoredMessage, extra: Mapping[str, Any]) -> PackedMessage:
    return PackedMessage(payload=message.payload, **_head(message), **extra)


def _head(message: StoredMessage) -> dict[str, Any]:
    return {
        "message_id": str(message.message_id),
        "offset": message.offset,
        "partition": message.partition,
        "kind": message.kind,
        "txn_id": None if message.txn_id is None else str(message.txn_id),
        "key": message.key,
        "properties": message.properties,
        "event_time": optional_time(message.event_time),
        "publish_time": time_text(message.publish_time),
        "producer_name": message.producer_name,
        "sequence_id": message.sequence_id,
    }

"""Batches: the messages that a producer sends, and where they are stored (design/api.md, Topics,
partitions, messages). How the forms of a payload differ is told in :mod:`.messages`."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from engine.model.errors import PayloadTooLarge
from engine.model.message import MessageID, NewMessage
from engine.model.partition import Appended
from engine.model.topic_name import PartitionName
from txnconsole.api.decoding import check_time, invalid
from txnconsole.api.limits import BATCH_MESSAGES
from txnconsole.api.structs.fields import (
    Answer,
    Body,
    MessageIDText,
    Moment,
    Name,
    Offset,
    TxnIDText,
)

#: More messages than these are a batch above its limit, not a malformed one (:func:`new_messages`).
_Batch = msgspec.Meta(min_length=1, extra_json_schema={"maxItems": BATCH_MESSAGES})
_Properties = Annotated[dict[str, str], msgspec.Meta(max_length=64)]


# Without defaults, as bodies mostly come: what they lack is not written when one is looked through
# for members that occur twice (txnconsole.api.decoding).
class MessageIn(Body, gc=False, omit_defaults=True):
    payload: str
    payload_encoding: Literal["utf-8", "base64"] = "utf-8"
    key: Annotated[str, msgspec.Meta(max_length=1024)] | None = None
    properties: _Properties = msgspec.field(default_factory=dict)
    event_time: Moment | None = None

    def raw(self) -> bytes:
        if self.payload_encoding == "utf-8":
            return self.payload.encode()
        return binascii.a2b_base64(self.payload, strict_mode=True)


class PackedMessageIn(Body, gc=False):
    payload: bytes
    #: A text's own bytes are the same by either name; base64 would be read in two ways.
    payload_encoding: Literal["bytes", "utf-8"] = "bytes"
    key: Annotated[str, msgspec.Meta(max_length=1024)] | None = None
    properties: _Properties = msgspec.field(default_factory=dict)
    event_time: Moment | None = None

    def raw(self) -> bytes:
        return self.payload


class _Produce(Body, kw_only=True, omit_defaults=True):
    txn_id: TxnIDText | None = None
    producer_name: Name | None = None
    sequence_id: Offset | None = None


class Produce(_Produce, kw_only=True):
    messages: Annotated[list[MessageIn], _Batch]


class PackedProduce(_Produce, kw_only=True):
    messages: Annotated[list[PackedMessageIn], _Batch]


def new_messages(messages: Sequence[MessageIn | PackedMessageIn]) -> list[NewMessage]:
    """The engine's messages.

    Raises:
        PayloadTooLarge: there are more than a batch takes.
        InvalidRequest: a payload is not base64 although it says so, or a text holds NUL.
    """
    if len(messages) > BATCH_MESSAGES:
        raise PayloadTooLarge(
            f"The batch has {len(messages)} messages; the limit is {BATCH_MESSAGES}.",
            limit_messages=BATCH_MESSAGES,
        )
    return [_new_message(index, message) for index, message in enumerate(messages)]


def _new_message(index: int, message: MessageIn | PackedMessageIn) -> NewMessage:
    try:
        payload = message.raw()
    except ValueError as error:
        raise invalid(f"messages[{index}].payload", f"is not base64: {error}") from error
    if message.key is not None and "\0" in message.key:
        raise invalid(f"messages[{index}].key", "must not hold NUL")
    if message.event_time is not None:
        check_time(f"messages[{index}].event_time", message.event_time)
    properties = message.properties
    if properties and any("\0" in name or "\0" in value for name, value in properties.items()):
        raise invalid(f"messages[{index}].properties", "must not hold NUL")
    return NewMessage(
        payload=payload,
        key=message.key,
        properties=properties,
        event_time=message.event_time,
    )


class Produced(Answer):
    """Where the batch is stored; ``duplicate`` when it was stored before."""

    first_offset: int
    last_offset: int
    first_message_id: MessageIDText
    last_message_id: MessageIDText
    duplicate: bool

    @classmethod
    def of(cls, partition: PartitionName, appended: Appended) -> Produced:
        size = appended.last_offset - appended.first_offset
        first = MessageID(appended.ledger_id, appended.first_offset, partition.number, 0)
        last = MessageID(appended.ledger_id, appended.first_offset, partition.number, size)
        return cls(
            first_offset=appended.first_offset,
            last_offset=appended.last_offset,
            first_message_id=str(first),
            last_message_id=str(last),
            duplicate=appended.duplicate,
        )

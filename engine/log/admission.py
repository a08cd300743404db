"""Which batches may be appended, and the errors of refused ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.log.appending import AppendResult
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    InvalidTxnStatus,
    PartitionNotFound,
    PartitionUnavailable,
    PayloadTooLarge,
    SequenceOutOfOrder,
)
from engine.model.message import NewMessage
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.settings import EngineSettings

_MAX_SEQUENCE_ID = 2**63 - 1
#: What is read back as bytes. Others would be stored, and nobody could read the batch.
_PAYLOADS = frozenset({bytes, bytearray, memoryview})
#: In bytes; an index has it.
_MAX_PRODUCER_NAME = 2000


def check(
    settings: EngineSettings,
    partition: PartitionName,
    messages: Sequence[NewMessage],
    *,
    packed_bytes: int,
    producer_name: str | None,
    sequence_id: int | None,
) -> None:
    """Refuse a batch that cannot be stored.

    Args:
        packed_bytes: the size of the whole batch in its packed form (engine.model.batch).

    Raises:
        InvalidRequest: the batch is empty or for one of the engine's own topics, a payload is no
            bytes, its sequence id is out of range or without a producer's name, or that name is
            empty or too long.
        PayloadTooLarge: a message, which the error names, or the batch is above its limit.
    """
    partition.require_writable()
    if not messages:
        raise InvalidRequest("A batch needs at least one message.", field="messages")
    if not {type(message.payload) for message in messages} <= _PAYLOADS:
        raise _no_bytes(messages)
    if (producer_name is None) != (sequence_id is None):
        missing = "producer_name" if producer_name is None else "sequence_id"
        raise InvalidRequest("producer_name and sequence_id go together.", field=missing)
    if producer_name is not None and not 1 <= _bytes_of(producer_name) <= _MAX_PRODUCER_NAME:
        raise InvalidRequest(
            f"producer_name must be a text of 1 to {_MAX_PRODUCER_NAME} bytes.",
            field="producer_name",
        )
    if sequence_id is not None and not 0 <= sequence_id <= _MAX_SEQUENCE_ID:
        raise InvalidRequest(
            f"sequence_id must be between 0 and {_MAX_SEQUENCE_ID}.", field="sequence_id"
        )
    if len(messages) > settings.max_batch_messages:
        raise PayloadTooLarge(
            f"The batch has {len(messages)} messages; the limit is {settings.max_batch_messages}.",
            limit_messages=settings.max_batch_messages,
        )
    # The packed batch is longer than everything in it, so within both limits nothing is too large.
    if packed_bytes <= min(settings.max_message_bytes, settings.max_batch_bytes):
        return
    _check_sizes(settings, [len(message.payload) for message in messages], "payload")
    beside = [
        len((message.key or "").encode()) + (_size(message.properties) if message.properties else 0)
        for message in messages
    ]
    _check_sizes(settings, beside, "key and properties")


def _bytes_of(text: str) -> int:
    """How many bytes a text has; none when it has half of a surrogate pair and so no encoding."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def _no_bytes(messages: Sequence[NewMessage]) -> InvalidRequest:
    types = [type(message.payload) for message in messages]
    place, found = next((i, each) for i, each in enumerate(types) if each not in _PAYLOADS)
    return InvalidRequest(
        f"messages[{place}]: a payload must be bytes, not {found.__name__}.", field="messages"
    )


def _check_sizes(settings: EngineSettings, sizes: Sequence[int], of_what: str) -> None:
    """Check one part of the messages against the limits. Payloads, and keys with properties, are
    checked apart, so that a payload may be as large as its limit whatever is sent with it."""
    largest, total = max(sizes), sum(sizes)
    if largest > settings.max_message_bytes:
        raise PayloadTooLarge(
            f"messages[{sizes.index(largest)}]: {of_what} of {largest} bytes; the limit is"
            f" {settings.max_message_bytes}.",
            limit_bytes=settings.max_message_bytes,
        )
    if total > settings.max_batch_bytes:
        raise PayloadTooLarge(
            f"The batch: {of_what} of {total} bytes; the limit is {settings.max_batch_bytes}.",
            limit_bytes=settings.max_batch_bytes,
        )


def _size(properties: Mapping[str, str]) -> int:
    return sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())


def refusal(answer: AppendResult, partition: PartitionName, txn_id: TxnID | None) -> EngineError:
    """The error for an append that ``functions/broker/append.sql`` has refused."""
    if answer.result == "ended":
        return InvalidTxnStatus(f"{txn_id} has ended in {partition}; nothing was stored.")
    if answer.result == "out_of_order":
        return SequenceOutOfOrder(
            f"The producer's last sequence id in {partition} is {answer.last_sequence_id}. This one"
            " is below it, and of no batch that is known: nothing was stored.",
            last_sequence_id=answer.last_sequence_id,
        )
    if answer.result == "not_found":
        return PartitionNotFound(f"{partition} is gone.")
    return PartitionUnavailable(f"{partition} is {answer.result}; try again.", state=answer.result)

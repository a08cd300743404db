"""The calls of the REST contract (design/api.md) that the client makes, each as a value. No IO."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any

import msgspec

from txnconsole.client import arguments
from txnconsole.client.answers import (
    Acknowledged,
    Caller,
    EndedGroup,
    Fetched,
    Nothing,
    PartitionStatus,
    Produced,
    Received,
    SubscriptionInfo,
    TopicInfo,
    TopicPage,
    TransactionInfo,
    TransactionOutcome,
    TransactionPage,
)
from txnconsole.client.wire import JSON, MSGPACK, Call, encode, segments


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to produce; ``event_time`` needs a time zone.

    It copies what may change: a payload given as a buffer, and the properties.

    Raises:
        TypeError, ValueError: an argument is wrong; the text names it.
    """

    payload: bytes
    key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    event_time: datetime | None = None

    def __post_init__(self) -> None:
        if type(self.payload) is not bytes:
            object.__setattr__(self, "payload", arguments.payload(self.payload))
        if self.key is not None:
            arguments.key(self.key)
        if self.properties or type(self.properties) is not dict:
            object.__setattr__(self, "properties", arguments.properties(self.properties))
        if self.event_time is not None:
            arguments.time("event_time", self.event_time)


def _post(path: str, body: Mapping[str, Any], answer: type[Any], **options: Any) -> Call[Any]:
    media_type = options.setdefault("media_type", JSON)
    return Call(method="POST", path=path, body=encode(body, media_type), answer=answer, **options)


def new_key() -> str:
    """A new ``Idempotency-Key``: a call that is repeated under the same key has one effect."""
    return secrets.token_urlsafe(16)


def topic_path(topic: str) -> str:
    """The path of ``tenant/namespace/topic``.

    Raises:
        TypeError, ValueError: the name has another form.
    """
    if not isinstance(topic, str):
        raise arguments.wrong_type("topic", "tenant/namespace/topic", topic)
    parts = topic.split("/")
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"{topic!r} is not a topic; write tenant/namespace/topic.")
    return f"/topics/{segments(*parts)}"


def _partition_path(topic: str, partition: int) -> str:
    arguments.whole("partition", partition, least=0)
    return f"{topic_path(topic)}/partitions/{partition}"


def _subscription_path(topic: str, subscription: str) -> str:
    if not isinstance(subscription, str):
        raise arguments.wrong_type("subscription", "a str", subscription)
    return f"{topic_path(topic)}/subscriptions/{segments(subscription)}"


def get_caller() -> Call[Caller]:
    return Call(method="GET", path="/me", answer=Caller)


# --- transactions


def open_transaction(
    *,
    timeout_ms: int | None,
    coordinator_id: int | None,
    client: str,
    properties: Mapping[str, str],
) -> Call[TransactionInfo]:
    """Open a transaction. The call has an idempotency key, so that repeating it after a lost answer
    does not open another one."""
    body = {"client": client, "properties": arguments.properties(properties)}
    optional = {"timeout_ms": timeout_ms, "coordinator_id": coordinator_id}
    return _post(
        "/transactions",
        body | _given(optional),
        TransactionInfo,
        idempotency_key=new_key(),
        undo=lambda opened: abort(opened.txn_id, reason="its opening was cancelled", wait_ms=0),
    )


def get_transaction(txn_id: str) -> Call[TransactionInfo]:
    return Call(method="GET", path=f"/transactions/{segments(txn_id)}", answer=TransactionInfo)


def list_transactions(filters: Mapping[str, Any]) -> Call[TransactionPage]:
    return Call(method="GET", path="/transactions", query=_given(filters), answer=TransactionPage)


def outcome(txn_id: str) -> Call[TransactionOutcome]:
    path = f"/transactions/{segments(txn_id)}/outcome"
    return Call(method="GET", path=path, answer=TransactionOutcome)


def commit(txn_id: str, *, wait_ms: int) -> Call[TransactionInfo]:
    path = f"/transactions/{segments(txn_id)}/commit"
    return _post(path, {"wait_ms": wait_ms}, TransactionInfo, wait_ms=wait_ms)


def abort(txn_id: str, *, reason: str, wait_ms: int) -> Call[TransactionInfo]:
    path = f"/transactions/{segments(txn_id)}/abort"
    return _post(path, {"reason": reason, "wait_ms": wait_ms}, TransactionInfo, wait_ms=wait_ms)


def extend(txn_id: str, *, timeout_ms: int, patience: float = inf) -> Call[TransactionInfo]:
    path = f"/transactions/{segments(txn_id)}/extend"
    return _post(path, {"timeout_ms": timeout_ms}, TransactionInfo, patience=patience)


def end_group(
    group: str, *, guard: str, commit: Sequence[str], abort: Sequence[str]
) -> Call[EndedGroup]:
    """Decide a group of transactions; when it was decided before, the answer is ``duplicate``."""
    body = {"group": group, "guard": guard, "commit": list(commit), "abort": list(abort)}
    return _post("/transactions/end-group", body, EndedGroup)


# --- topics and messages


def create_topic(topic: str, settings: Mapping[str, Any]) -> Call[TopicInfo]:
    """Create a topic, or change it; a retention of None is without limit."""
    body = encode(settings, JSON)
    return Call(method="PUT", path=topic_path(topic), body=body, answer=TopicInfo)


def get_topic(topic: str) -> Call[TopicInfo]:
    return Call(method="GET", path=topic_path(topic), answer=TopicInfo)


def list_topics(*, cursor: str | None = None, include_system: bool = False) -> Call[TopicPage]:
    query = {"cursor": cursor, "include_system": "true" if include_system else None, "limit": 500}
    return Call(method="GET", path="/topics", query=_given(query), answer=TopicPage)


def get_partition(topic: str, partition: int) -> Call[PartitionStatus]:
    return Call(method="GET", path=_partition_path(topic, partition), answer=PartitionStatus)


def produce(
    topic: str,
    partition: int,
    messages: Sequence[NewMessage],
    *,
    txn_id: str | None,
    producer_name: str | None,
    sequence_id: int | None,
    deduplication: bool = True,
) -> Call[Produced]:
    """Append one batch. It is idempotent only with a producer name and a sequence id, on a topic
    that deduplicates (``deduplication``)."""
    return produce_packed(
        topic,
        partition,
        [_message(message) for message in messages],
        txn_id=txn_id,
        producer_name=producer_name,
        sequence_id=sequence_id,
        deduplication=deduplication,
    )


def produce_packed(
    topic: str,
    partition: int,
    messages: msgspec.Raw | Sequence[Mapping[str, Any]],
    *,
    txn_id: str | None,
    producer_name: str | None,
    sequence_id: int | None,
    deduplication: bool = True,
) -> Call[Produced]:
    """As :func:`produce`, of messages in the contract's form: a mapping for each, or one array of
    all that is encoded as MessagePack already."""
    body = {
        "txn_id": txn_id,
        "producer_name": producer_name,
        "sequence_id": sequence_id,
        "messages": messages,
    }
    return _post(
        f"{_partition_path(topic, partition)}/messages",
        body,
        Produced,
        media_type=MSGPACK,
        idempotent=deduplication and producer_name is not None and sequence_id is not None,
    )


def fetch(topic: str, partition: int, query: Mapping[str, Any]) -> Call[Fetched]:
    return Call(
        method="GET",
        path=f"{_partition_path(topic, partition)}/messages",
        query=_given(query),
        answer=Fetched,
        media_type=MSGPACK,
        wait_ms=query.get("wait_ms", 0),
    )


# --- subscriptions


def create_subscription(
    topic: str, subscription: str, settings: Mapping[str, Any]
) -> Call[SubscriptionInfo]:
    path = _subscription_path(topic, subscription)
    body = encode(_given(settings), JSON)
    return Call(method="PUT", path=path, body=body, answer=SubscriptionInfo)


def get_subscription(topic: str, subscription: str) -> Call[SubscriptionInfo]:
    path = _subscription_path(topic, subscription)
    return Call(method="GET", path=path, answer=SubscriptionInfo)


def receive(
    topic: str, subscription: str, *, consumer: str, max_messages: int, wait_ms: int
) -> Call[Received]:
    """Receive messages. When the answer is lost, its messages are delivered again after the
    acknowledgement timeout."""
    body = {"consumer": consumer, "max_messages": max_messages, "wait_ms": wait_ms}
    path = f"{_subscription_path(topic, subscription)}/receive"
    return _post(path, body, Received, media_type=MSGPACK, wait_ms=wait_ms)


def acknowledge(
    topic: str,
    subscription: str,
    message_ids: Sequence[str],
    *,
    consumer: str,
    txn_id: str | None,
    ack_type: str,
) -> Call[Acknowledged]:
    body = {
        "consumer": consumer,
        "txn_id": txn_id,
        "ack_type": ack_type,
        "message_ids": list(message_ids),
    }
    path = f"{_subscription_path(topic, subscription)}/ack"
    return _post(path, body, Acknowledged, media_type=MSGPACK)


def negative_acknowledge(
    topic: str, subscription: str, message_ids: Sequence[str], *, consumer: str
) -> Call[Nothing]:
    body = {"consumer": consumer, "message_ids": list(message_ids)}
    path = f"{_subscription_path(topic, subscription)}/nack"
    return _post(path, body, Nothing, idempotency_key=new_key())


def leave(topic: str, subscription: str, *, consumer: str) -> Call[Nothing]:
    path = f"{_subscription_path(topic, subscription)}/leave"
    return _post(path, {"consumer": consumer}, Nothing, idempotency_key=new_key())


def seek(
    topic: str,
    subscription: str,
    places: Mapping[str, Any],
    *,
    partition: int | None,
    force: bool,
    reason: str = "",
) -> Call[Nothing]:
    """Move a subscription to a place, given in one of several ways.

    Raises:
        ValueError: not exactly one place is given.
    """
    place = _given(places)
    if len(place) != 1:
        raise ValueError(f"Give one of {', '.join(places)}.")
    body = {name: _time(value) for name, value in place.items()}
    body |= _given({"partition": partition}) | {"force": force, "reason": reason}
    path = f"{_subscription_path(topic, subscription)}/seek"
    return _post(path, body, Nothing, idempotency_key=new_key())


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _message(message: NewMessage) -> dict[str, Any]:
    return {
        "key": message.key,
        "payload": message.payload,
        "properties": dict(message.properties),
        "event_time": _time(message.event_time),
    }


def _time(value: Any) -> Any:
    """A time in the contract's form; any other value unchanged."""
    if not isinstance(value, datetime):
        return value
    arguments.time("timestamp", value)
    return value.astimezone(UTC).isoformat(timespec="microseconds")

"""What schemathesis loads into its own process (tests/api/test_fuzzing.py): how MessagePack is
written and read, a plain call of each operation whatever else is drawn, the things that the
contract's examples name, and a note of each call and its answer."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import schemathesis
from schemathesis import Case, DeserializationContext, HookContext, Response, SerializationContext

_MSGPACK = "application/msgpack"
#: The header and the contract's example of it, under which every call would be the same.
_KEY, _EXAMPLE = "Idempotency-Key", "7d4a6c0e-5f0b-4f0e-9d1f-2b6f0c8a1e55"
_TOPIC = "/topics/public/default/flights"
_SUBSCRIPTION = f"{_TOPIC}/subscriptions/delays"
_MESSAGES = f"{_TOPIC}/partitions/0/messages"
#: The contract's example of a transaction is 3:42.
_COORDINATOR, _TRANSACTIONS = 3, 43
_PATH: Mapping[str, str] = {
    "tenant": "public",
    "namespace": "default",
    "topic": "flights",
    "partition": "0",
    "subscription": "delays",
}
#: A good body of each call that speaks MessagePack, as JSON would write it.
_PACKED: Mapping[str, Any] = {
    "produceMessages": {"messages": [{"payload": "packed"}]},
    "receiveMessages": {"consumer": "delays-1", "max_messages": 2},
    "fetchMessages": None,
    "acknowledgeMessages": {"consumer": "delays-1", "message_ids": ["0:17:0:0"]},
}

_calls = Path(os.environ["TXNCONSOLE_FUZZED"])
_server = httpx.Client(
    base_url=os.environ["TXNCONSOLE_URL"] + "/api/v1",
    headers={"Authorization": f"Bearer {os.environ['TXNCONSOLE_TOKEN']}"},
    timeout=60,
)


@schemathesis.serializer(_MSGPACK)
def write(_context: SerializationContext, value: Any) -> bytes:
    return msgspec.msgpack.encode(
        _writable(_with_payloads(value, lambda text: text.encode(errors="surrogatepass"), str))
    )


@schemathesis.deserializer(_MSGPACK)
def read(_context: DeserializationContext, response: Response) -> Any:
    answer = msgspec.msgpack.decode(response.content)
    return _with_payloads(answer, lambda payload: payload.decode("latin-1"), bytes)


def _writable(value: Any) -> Any:
    """MessagePack has no integers beyond 64 bits: texts are as wrong where an integer belongs."""
    if isinstance(value, dict):
        return {name: _writable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_writable(each) for each in value]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


def _with_payloads(value: Any, change: Callable[[Any], Any], kind: type) -> Any:
    """A document with its messages' payloads, which the schema calls texts, in another form."""
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        return value
    return value | {
        "messages": [
            each | {"payload": change(each["payload"])}
            if isinstance(each, dict) and isinstance(each.get("payload"), kind)
            else each
            for each in messages
        ]
    }


@schemathesis.hook
def before_add_examples(context: HookContext, examples: list[Case]) -> None:
    """A call without parameters of what has no example, and one in MessagePack of what takes it."""
    operation = context.operation
    assert operation is not None
    name = operation.definition.raw["operationId"]
    if name in _PACKED:
        path = {each.name: _PATH[each.name] for each in operation.path_parameters}
        packed = operation.Case(path_parameters=path, headers={"Accept": _MSGPACK})
        if _PACKED[name] is not None:
            packed.body, packed.media_type = _PACKED[name], _MSGPACK
        examples.append(packed)
    elif not examples:
        examples.append(operation.Case())
    if name == "acknowledgeMessages":  # The contract's examples name messages of nobody's log.
        for each in examples:
            each.body = each.body | {"message_ids": _last_ids()}


@schemathesis.hook
def before_call(_context: HookContext, case: Case, kwargs: Mapping[str, Any]) -> None:
    if case.headers.get(_KEY) == _EXAMPLE:
        case.headers[_KEY] = str(uuid.uuid4())
    if case.media_type == _MSGPACK:
        case.headers["Accept"] = _MSGPACK


@schemathesis.hook
def after_call(_context: HookContext, case: Case, response: Response) -> None:
    """Note the call; what it has taken away comes back before the next one."""
    name, status = str(case.operation.definition.raw["operationId"]), response.status_code
    if status < 300 and name == "takePartitionOffline":  # Others would be answered 503.
        _done("POST", case.formatted_path.replace("/offline", "/online"), {"reason": "fuzzed"})
    if status < 300 and name in ("deleteTopic", "deleteSubscription"):
        _fill()
    answer = response.headers.get("content-type", ())
    note = {
        "operation": name,
        "packed": _MSGPACK in answer,
        "status": status,
        "code": response.json()["code"] if "application/problem+json" in answer else None,
    }
    with _calls.open("a") as file:
        file.write(json.dumps(note) + "\n")


def _fill() -> None:
    """Make the topic of the contract's examples, with its subscription and some messages."""
    _done("PUT", _TOPIC, {"partitions": 1})
    _done("PUT", _SUBSCRIPTION, {})
    for number in range(20):
        _done("POST", _MESSAGES, {"messages": [{"payload": f"message {number}"}]})


def _last_ids() -> list[str]:
    log = _server.get(f"{_MESSAGES}?view=log&from_offset=17&max_messages=2")
    return [message["message_id"] for message in log.raise_for_status().json()["messages"]]


def _done(method: str, path: str, body: Mapping[str, Any]) -> Any:
    answer = _server.request(method, path.removeprefix("/api/v1"), json=body)
    answer.raise_for_status()
    return answer.json()


_fill()
for _ in range(_TRANSACTIONS):
    _done("POST", "/transactions", {"coordinator_id": _COORDINATOR})

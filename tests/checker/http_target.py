"""The product's REST interface as a target of requests, spoken to without the client library.

Nothing is retried here: what the library would hide is what the history is about.
"""

from __future__ import annotations

from typing import Any

import httpx
import msgspec

from tests.checker.delivery_checks import key_of, properties_of, value_of
from tests.checker.history import (
    Ack,
    Begin,
    End,
    Extend,
    Fetch,
    Look,
    Nack,
    Op,
    Produce,
    Receive,
    Txn,
)
from tests.checker.network import Refused, Unknown

_AGAIN = (408, 429, 500, 502, 503, 504)


class HttpTarget:
    """Thread-safe; ``broken`` are the answers that a server must never give: 500 and their like."""

    def __init__(self, url: str, token: str, sidecars: frozenset[str] = frozenset()) -> None:
        self.broken: list[str] = []
        self._sidecars = sidecars
        self._http = httpx.Client(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=20,
        )

    def close(self) -> None:
        self._http.close()

    def perform(self, op: Op) -> Op:
        """See :class:`tests.checker.network.Target`."""
        results = getattr(self, f"_{type(op).__name__.lower()}")(op)
        return msgspec.structs.replace(op, **results)

    def _ask(self, method: str, path: str, **content: Any) -> Any:
        try:
            answer = self._http.request(method, path, **content)
        except httpx.TransportError as error:
            raise Unknown from error
        if answer.is_success:
            return answer.json() if answer.content else None
        if answer.status_code == 500:
            self.broken.append(f"{method} {path}: {answer.text[:500]}")
        if answer.status_code in _AGAIN:
            raise Unknown
        problem = answer.json()
        raise Refused(problem["code"], problem.get("current_status"))

    def _begin(self, op: Begin) -> dict[str, Any]:
        body = {"timeout_ms": op.timeout_ms, "client": "checker"}
        return {"txn": self._ask("POST", "/transactions", json=body)["txn_id"]}

    def _produce(self, op: Produce) -> dict[str, Any]:
        topic, _, number = op.partition.rpartition(":")
        body = {
            "txn_id": op.txn,
            "producer_name": op.producer,
            "sequence_id": op.sequence,
            "messages": [
                {"payload": value, "key": key_of(value), "properties": properties_of(value)}
                for value in op.values
            ],
        }
        answer = self._ask("POST", f"/topics/{topic}/partitions/{number}/messages", json=body)
        hidden = op.txn is not None and topic in self._sidecars
        first = None if hidden else answer["first_offset"]
        return {"first": first, "duplicate": answer["duplicate"]}

    def _end(self, op: End) -> dict[str, Any]:
        if op.group is not None:
            body = {
                "group": op.group,
                "guard": op.guard,
                "commit": list(op.commit),
                "abort": list(op.abort),
            }
            answer = self._ask("POST", "/transactions/end-group", json=body)
            return {"statuses": _statuses(answer)}
        [txn] = (*op.commit, *op.abort)
        if op.commit:
            answer = self._ask("POST", f"/transactions/{txn}/commit", json={})
        else:
            answer = self._ask("POST", f"/transactions/{txn}/abort", json={"reason": "checker"})
        return {"statuses": {txn: answer["status"]}}

    def _extend(self, op: Extend) -> dict[str, Any]:
        path = f"/transactions/{op.txn}/extend"
        self._ask("POST", path, json={"timeout_ms": op.timeout_ms})
        return {}

    def _look(self, op: Look) -> dict[str, Any]:
        return {"seen": self._ask("GET", f"/transactions/{op.txn}")["status"]}

    def _fetch(self, op: Fetch) -> dict[str, Any]:
        topic, _, number = op.partition.rpartition(":")
        query = {
            "from_offset": op.from_offset,
            "max_messages": op.max_messages,
            "isolation": "read_committed" if op.committed else "read_uncommitted",
        }
        if op.kept:
            query["filter"] = "client"
        path = f"/topics/{topic}/partitions/{number}/messages"
        answer = self._ask("GET", path, params=query)
        return {
            "records": tuple((m["offset"], _value(m)) for m in answer["messages"]),
            "aborted": tuple(
                (txn["txn_id"], txn["first_offset"]) for txn in answer["aborted_transactions"] or ()
            ),
            "next_offset": answer["next_offset"],
            "stable": answer["stable_position"],
            "last": answer["last_offset"],
        }

    def _receive(self, op: Receive) -> dict[str, Any]:
        topic = op.subscription.partition("|")[0]
        body = {"consumer": op.consumer, "max_messages": op.max_messages, "wait_ms": 0}
        answer = self._ask("POST", f"{_subscription(op.subscription)}/receive", json=body)
        return {
            "messages": tuple(
                (f"{topic}:{m['partition']}", m["offset"], _value(m), m["message_id"])
                for m in answer["messages"]
            )
        }

    def _ack(self, op: Ack) -> dict[str, Any]:
        body = {
            "consumer": op.consumer,
            "txn_id": op.txn,
            "ack_type": "CUMULATIVE" if op.cumulative else "INDIVIDUAL",
            "message_ids": [mid for _, _, mid in op.messages],
        }
        answer = self._ask("POST", f"{_subscription(op.subscription)}/ack", json=body)
        gone = set(answer["dropped"])
        return {
            "dropped": tuple((place, offset) for place, offset, mid in op.messages if mid in gone)
        }

    def _nack(self, op: Nack) -> dict[str, Any]:
        body = {"consumer": op.consumer, "message_ids": [mid for _, _, mid in op.messages]}
        self._ask("POST", f"{_subscription(op.subscription)}/nack", json=body)
        return {}


def _subscription(text: str) -> str:
    topic, _, name = text.partition("|")
    return f"/topics/{topic}/subscriptions/{name}"


def _value(message: Any) -> str:
    return value_of(message["payload"], message["properties"])


def _statuses(answer: Any) -> dict[Txn, str]:
    """Of a group's answer; see txnconsole/api/structs/transactions.py."""
    return {each["txn_id"]: each["status"] for each in answer["transactions"]}

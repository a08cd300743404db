"""A full run leaves ids in the logs, and no payload, key or token."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import httpx

from tests.server import Served
from tests.support.eventually import eventually


def lines(logs: Path, program: str) -> list[dict[str, object]]:
    said = (logs / f"{program}.log").read_text(errors="replace")
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def test_no_line_of_a_full_run_holds_a_payload_a_key_or_a_token(
    server: Served, server_directory: Path
) -> None:
    secret = {name: f"{name}-{secrets.token_hex(12)}" for name in ("payload", "key", "property")}
    topic = server.topic()
    messages = f"/topics/{topic}/partitions/0/messages"
    request_id = f"run-{secrets.token_hex(8)}"
    message = {
        "payload": secret["payload"],
        "key": secret["key"],
        "properties": {"p": secret["property"]},
    }
    stranger = f"txn_{secrets.token_urlsafe(24)}"
    with server.client("admin") as client:
        client.headers["X-Request-ID"] = request_id
        client.put(f"/topics/{topic}/subscriptions/s", json={"type": "SHARED"}).raise_for_status()
        txn_id = client.post("/transactions", json={}).raise_for_status().json()["txn_id"]
        produce = {"txn_id": txn_id, "messages": [message]}
        client.post(messages, json=produce).raise_for_status()
        client.get(f"{messages}?isolation=read_uncommitted").raise_for_status()
        # What is refused is told without repeating it.
        nul = [{"payload": "x", "key": secret["key"] + "\0", "properties": {"p": "\0"}}]
        refused = [
            client.post(messages, json={"messages": [message | {"event_time": secret["payload"]}]}),
            client.post(messages, json={"messages": nul}),
            client.post(messages, json=produce | {"txn_id": "0:999999999"}),
            client.post(
                messages,
                content=b'{"messages": "' + secret["payload"].encode(),
                headers={"Content-Type": "application/json"},
            ),
            client.post(f"/transactions?note={secret['payload']}", json={"x": secret["payload"]}),
            httpx.get(
                f"{server.url}/api/v1/coordinators", headers={"Authorization": f"Bearer {stranger}"}
            ),
        ]
        assert all(400 <= answer.status_code < 500 for answer in refused[2:]), refused
        assert all(answer.status_code < 500 for answer in refused)
        client.post(f"/transactions/{txn_id}/commit", json={"wait_ms": 30_000}).raise_for_status()
        received = client.post(
            f"/topics/{topic}/subscriptions/s/receive", json={"consumer": "c1", "max_messages": 10}
        ).raise_for_status()
        ids = [each["message_id"] for each in received.json()["messages"]]
        client.post(
            f"/topics/{topic}/subscriptions/s/ack", json={"consumer": "c1", "message_ids": ids}
        ).raise_for_status()
        token = client.headers["Authorization"].removeprefix("Bearer ")
    worker_log = server.logs / "worker.log"
    assert eventually(lambda: txn_id in worker_log.read_text(errors="replace"))

    files = [*server.logs.glob("*.log*"), server_directory / "postgres.log"]
    said = {file.name: file.read_text(errors="replace") for file in files if file.exists()}
    assert {"web.log", "worker.log", "postgres.log"} <= said.keys()
    for name, text in said.items():
        for kind, value in (secret | {"token": token, "stranger": stranger}).items():
            assert value not in text, f"{name} holds the {kind}"

    mine = [line for line in lines(server.logs, "web") if line.get("request_id") == request_id]
    about = [line for line in mine if line.get("txn_id") == txn_id]
    assert {line.get("path") for line in about} >= {
        f"/api/v1{messages}",
        f"/api/v1/transactions/{txn_id}/commit",
    }
    ended = [line for line in lines(server.logs, "worker") if txn_id in str(line.get("txn_ids"))]
    assert ended
    assert all(line["task"] and line["task_id"] for line in ended)

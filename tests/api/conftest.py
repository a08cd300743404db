"""Calls of the API within the test's own process, on a real engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from engine import Engine
from engine.model.topic import TopicSettings
from engine.model.topic_name import TopicName
from tests.engine.support import finalize as carry_out_ends
from txnconsole.access.roles import Role
from txnconsole.access.tokens import issue
from txnconsole.api.structs.problem import Problem

TOPIC = "public/default/flights"
MESSAGES = f"/topics/{TOPIC}/partitions/0/messages"
#: What Pulsar's clients read in a refusal of its paths, which the contract does not describe.
_OF_PULSAR = {"reason"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def msgpack(self) -> Any:
        return msgspec.msgpack.decode(self.content)

    def is_problem(self, status: int, code: str) -> bool:
        """Whether this is the problem document of that code, complete, and as the contract says."""
        if self.headers["Content-Type"] != "application/problem+json":
            return False
        body = self.json
        msgspec.json.decode(self.content, type=Problem)
        assert set(body) - _OF_PULSAR <= set(Problem.__struct_fields__)
        assert body["type"].endswith(code)
        assert body["title"]
        assert body["detail"]
        assert body["request_id"]
        return (self.status, body["status"], body["code"]) == (status, status, code)


class Caller:
    """Somebody with a token, or without one."""

    def __init__(self, secret: str | None = None) -> None:
        self._client = Client(raise_request_exception=False)
        self._headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = "application/json",
        base: str = "/api/v1",
        **headers: str,
    ) -> Answer:
        """Send bytes as they are; header names with underscores for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response: HttpResponse = self._client.generic(
            method,
            f"{base}{path}",
            body,
            content_type=content_type,
            headers=self._headers | named,
        )
        content = b"".join(response) if response.streaming else response.content
        return Answer(response.status_code, dict(response.items()), content)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: object = None) -> Answer:
        return self.send("POST", path, json.dumps({} if body is None else body).encode())

    def put(self, path: str, body: object = None) -> Answer:
        return self.send("PUT", path, json.dumps({} if body is None else body).encode())

    def delete(self, path: str) -> Answer:
        return self.send("DELETE", path)

    def open(self, **body: object) -> str:
        """Open a transaction and return its id."""
        answer = self.post("/transactions", body)
        assert answer.status == 201, answer.content
        txn_id: str = answer.json["txn_id"]
        return txn_id

    def produce(self, *payloads: str, txn_id: str | None = None) -> Any:
        """Produce to the first partition of TOPIC."""
        messages = [{"payload": payload} for payload in payloads]
        answer = self.post(MESSAGES, {"txn_id": txn_id, "messages": messages})
        assert answer.status == 201, answer.content
        return answer.json


@pytest.fixture
def as_role(engine: Engine, db: None) -> Callable[..., Caller]:
    """Make a caller with roles: ``as_role("producer", user="p", topics="public/*")``."""

    def make(*roles: str, user: str | None = None, topics: str = "*") -> Caller:
        owner, _ = User.objects.get_or_create(username=user or "-".join(roles))
        _, secret = issue(owner, [Role(role) for role in roles], topics=[topics])
        return Caller(secret)

    return make


@pytest.fixture
def program(as_role: Callable[..., Caller]) -> Caller:
    """A program that produces and consumes."""
    return as_role("producer", "consumer", user="program")


@pytest.fixture
def topic(engine: Engine) -> str:
    """``public/default/flights`` with two partitions."""
    engine.topics.create(TopicName.parse(TOPIC), TopicSettings(partitions=2))
    return TOPIC


@pytest.fixture
def finalize(engine: Engine) -> Callable[[], None]:
    """What the workers do after an end."""
    return partial(carry_out_ends, engine)

"""A cursor belongs to the list that has given it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.urls import URLPattern

from engine.model.page import encode_cursor
from tests.api.conftest import TOPIC, Caller
from txnconsole.api.endpoint import operation_of
from txnconsole.api.paging import Cursors
from txnconsole.api.urls import urlpatterns

_PARTITIONS = f"/topics/{TOPIC}/partitions"
_PATH = {
    **dict(zip(("tenant", "namespace", "topic"), TOPIC.split("/"), strict=True)),
    "partition": "0",
    "txn_id": "1:1",
    "job_id": "1",
    "channel_id": "1",
}


def test_numbers_of_another_list_are_refused(as_role: Callable[..., Caller]) -> None:
    admin = as_role("admin")
    for name in ("ann", "bob", "cid"):
        assert admin.put(f"/users/{name}", {"roles": ["viewer"]}).status == 201
        assert admin.post("/tokens", {"user": name, "roles": ["viewer"]}).status == 201
    cursors = {
        path: admin.get(f"{path}?limit=1").json["next_cursor"]
        for path in ("/tokens", "/audit", "/users", "/alerts/rules")
    }
    for path in cursors:
        for owner, cursor in cursors.items():
            answer = admin.get(f"{path}?limit=1&cursor={cursor}")
            if owner == path:
                assert answer.status == 200
            else:
                assert answer.is_problem(400, "InvalidRequest"), (path, owner)
                assert answer.json["errors"][0]["field"] == "cursor"


def test_a_place_in_one_partition_is_none_in_another(program: Caller, topic: str) -> None:
    for _ in range(2):
        program.produce("a", txn_id=program.open())
    cursor = program.get(f"{_PARTITIONS}/0/blockers?limit=1").json["next_cursor"]
    assert program.get(f"{_PARTITIONS}/0/blockers?cursor={cursor}").status == 200
    other = program.get(f"{_PARTITIONS}/1/blockers?cursor={cursor}")
    assert other.is_problem(400, "InvalidRequest")


def test_every_list_refuses_a_cursor_without_its_name(as_role: Callable[..., Caller]) -> None:
    admin = as_role("admin")
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        view: Any = pattern.callback
        operation = operation_of(view.cls, "GET")
        fields = getattr(operation and operation.shape.query, "__struct_fields__", ())
        if operation is None or "cursor" not in fields or operation.name == "fetchMessages":
            continue
        path = re.sub(r"<(?:\w+:)?(\w+)>", lambda part: _PATH[part[1]], str(pattern.pattern))
        for cursor in (encode_cursor(1), encode_cursor("a", "b"), encode_cursor(1) + ".0"):
            answer = admin.get(f"/{path}?cursor={cursor}")
            assert answer.is_problem(400, "InvalidRequest"), (path, answer.content)
            assert answer.json["errors"][0]["field"] == "cursor", (path, answer.content)


def test_no_two_lists_have_the_same_name() -> None:
    seals = {Cursors(name)._seal(path) for name in ("a", "b") for path in ({}, {"x": "1"})}
    assert len(seals) == 4

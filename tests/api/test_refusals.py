"""What is malformed is refused, and the answer names the field: for every operation what its
structs refuse, and whatever the engine does, in one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine import Engine
from engine.model.page import encode_cursor
from tests.api.conftest import MESSAGES, TOPIC, Answer, Caller
from tests.api.operations import REQUESTS, world
from txnconsole.api.endpoint import operation_of
from txnconsole.api.urls import urlpatterns

__all__ = ["world"]

_T = f"/topics/{TOPIC}"
_SYSTEM = "/topics/public/default/__transaction_buffer_snapshot"
_S = f"{_T}/subscriptions/shared"
_PAST_ALL = 2**62
_WHY = {"reason": "why"}
_ONE = [{"payload": "x"}]
_FOREIGN = encode_cursor("another", "list", "of", "five", "parts")

#: Of each operation: requests that no client should make, and which field the answer names.
BAD: list[tuple[str, str, Any, str]] = [
    ("POST", "/transactions", {"timeout_ms": _PAST_ALL // 1000}, "timeout_ms"),
    ("POST", "/transactions", {"coordinator_id": 65_536}, "coordinator_id"),
    ("GET", "/transactions?topic=flights", None, "topic"),
    ("GET", "/transactions?status=GONE", None, "status[0]"),
    ("GET", f"/transactions?min_age_ms={2**53}", None, "min_age_ms"),
    ("GET", "/slow-transactions?min_age_ms=300000000000000", None, "min_age_ms"),
    ("PUT", _T, {"retention_ms": 2**53}, "retention_ms"),
    ("GET", "/transactions?opened_after=1700000000", None, "opened_after"),
    ("GET", "/transactions/{own}/impact?action=undo", None, "action"),
    ("POST", "/transactions/{own}/extend", {"timeout_ms": _PAST_ALL // 1000}, "timeout_ms"),
    ("POST", "/transactions/{own}/extend", {}, "timeout_ms"),
    ("POST", "/transactions/{own}/partitions", {"partitions": ["flights:0"]}, "partitions[0]"),
    (
        "POST",
        "/transactions/{own}/partitions",
        {"partitions": [f"{TOPIC}:0", "public/default/__transaction_buffer_snapshot:0"]},
        "partitions[1]",
    ),
    (
        "POST",
        "/transactions/{own}/subscriptions",
        {"subscriptions": [{"topic": "flights", "subscription": "s"}]},
        "subscriptions[0].topic",
    ),
    (
        "POST",
        "/transactions/{own}/subscriptions",
        {"subscriptions": [{"topic": TOPIC, "subscription": "a b"}]},
        "subscriptions[0].subscription",
    ),
    (
        "POST",
        "/transactions/end-group",
        {"group": "g", "guard": "g", "commit": ["{own}"], "abort": ["{own}"]},
        "abort",
    ),
    (
        "POST",
        "/transactions/end-group",
        {"group": "g", "guard": "g", "commit": ["70000:1"]},
        "commit[0]",
    ),
    ("GET", "/transactions/bulk-abort?status=COMMITTED", None, "status"),
    (
        "POST",
        "/transactions/bulk-abort",
        {"filter": {"status": ["ABORTED"]}, "expected_count": 1} | _WHY,
        "filter.status",
    ),
    (
        "POST",
        "/transactions/bulk-abort",
        {"filter": {"topic": "flights"}, "expected_count": 0} | _WHY,
        "filter.topic",
    ),
    ("PUT", _T, {"partitions": 1025}, "partitions"),
    ("PUT", _SYSTEM, {"partitions": 1}, "topic"),
    ("POST", MESSAGES, {"messages": []}, "messages"),
    ("POST", MESSAGES, {"messages": _ONE, "sequence_id": 1}, "producer_name"),
    ("POST", MESSAGES, {"messages": _ONE, "producer_name": "p"}, "sequence_id"),
    ("POST", MESSAGES, {"messages": _ONE, "txn_id": "70000:1"}, "txn_id"),
    ("POST", MESSAGES, {"messages": [{"payload": "x", "key": "\0"}]}, "messages[0].key"),
    ("GET", f"{MESSAGES}?from_offset=-1", None, "from_offset"),
    ("GET", f"{MESSAGES}?max_bytes=0", None, "max_bytes"),
    ("GET", f"{MESSAGES}?order=committed&cursor={_FOREIGN}", None, "cursor"),
    (
        "GET",
        f"{MESSAGES}?order=committed&cursor={encode_cursor(3, 9, -1)}",
        None,
        "cursor",
    ),
    ("GET", f"{MESSAGES}?cursor=x", None, "cursor"),
    ("GET", f"{MESSAGES}?filter=client&view=log", None, "filter"),
    ("GET", f"{_T}/partitions/0/history?offset=1&from=2026-01-01T00:00:00Z", None, "at"),
    (
        "GET",
        f"{_T}/partitions/0/history?from=2126-01-01T00:00:00Z",
        None,
        "from",
    ),
    *(
        case
        for moment in ("0001-01-01T00:00:00Z", "0001-12-31T23:00:00-14:00", "9999-12-31T12:00:00Z")
        for case in (
            ("GET", f"/transactions?opened_after={moment}", None, "opened_after"),
            ("GET", f"{_T}/partitions/0/history?at={moment}", None, "at"),
            ("GET", f"{_T}/partitions/0/history?to={moment}", None, "to"),
            ("POST", f"{_S}/seek", {"timestamp": moment}, "timestamp"),
            (
                "POST",
                "/transactions/bulk-abort",
                {"filter": {"opened_before": moment}, "expected_count": 0} | _WHY,
                "filter.opened_before",
            ),
            (
                "POST",
                MESSAGES,
                {"messages": [{"payload": "x", "event_time": moment}]},
                "messages[0].event_time",
            ),
        )
    ),
    ("GET", f"{_T}/partitions/0/explain", None, "offset"),
    ("GET", f"{_T}/partitions/0/explain?offset=0&subscription=a%20b", None, "subscription"),
    ("POST", f"{_T}/partitions/1/truncate", {"offset": 0}, "reason"),
    ("POST", f"{_SYSTEM}/partitions/0/offline", _WHY, "topic"),
    ("POST", f"{_T}/partitions/0/force-abort", {"txn_id": "70000:1"} | _WHY, "txn_id"),
    ("POST", f"{_S}/force-abort", {"txn_id": "70000:1"} | _WHY, "txn_id"),
    ("PUT", f"{_T}/subscriptions/new", {"max_redeliveries": 3}, "dead_letter_topic"),
    ("PUT", f"{_T}/subscriptions/new", {"dead_letter_topic": TOPIC}, "max_redeliveries"),
    (
        "PUT",
        f"{_T}/subscriptions/new",
        {"max_redeliveries": 3, "dead_letter_topic": TOPIC},
        "dead_letter_topic",
    ),
    (
        "PUT",
        f"{_T}/subscriptions/new",
        {"max_redeliveries": 3, "dead_letter_topic": "public/default/twice"},
        "dead_letter_topic",
    ),
    ("POST", f"{_S}/receive", {"consumer": "c", "max_messages": 0}, "max_messages"),
    ("POST", f"{_S}/ack", {"consumer": "c", "message_ids": ["0:0"]}, "message_ids[0]"),
    (
        "POST",
        f"{_S}/ack",
        {"consumer": "c", "message_ids": [f"{2**63}:0:0:0"]},
        "message_ids[0]",
    ),
    (
        "POST",
        f"{_S}/ack",
        {"consumer": "c", "message_ids": ["0:0:0:0"], "ack_type": "CUMULATIVE"},
        "ack_type",
    ),
    (
        "POST",
        f"{_S}/ack",
        {"consumer": "c", "message_ids": ["0:0:0:0", "0:1:0:0"], "ack_type": "CUMULATIVE"},
        "message_ids",
    ),
    ("POST", f"{_S}/nack", {"consumer": "c", "message_ids": ["x"]}, "message_ids[0]"),
    ("POST", f"{_S}/seek", {}, "offset"),
    ("POST", f"{_S}/seek", {"offset": 0}, "partition"),
    ("POST", "/coordinators/scale", {"count": 1}, "count"),
    ("POST", "/coordinators/scale", {"count": 65_537}, "count"),
    ("GET", "/audit/verify?hash=x", None, "hash"),
    ("POST", "/tokens", {"user": "a b", "roles": ["viewer"]}, "user"),
    ("POST", "/tokens", {"user": "root", "roles": ["king"]}, "roles[0]"),
    ("GET", "/tokens/x", None, "token_id"),
    ("GET", f"/tokens/01{'0' * 4_300}", None, "token_id"),
    ("PUT", "/users/a%20b", {}, "user"),
    ("PUT", "/users/new", {"password": "password"}, "password"),
    ("POST", "/pipeline/runs", {"kind": "dance"} | _WHY, "kind"),
    ("POST", "/pipeline/runs", {"kind": "audit", "parameters": {"x": "y"}}, "parameters.x"),
    ("POST", "/alerts/silences", {"duration_ms": 0} | _WHY, "duration_ms"),
    ("POST", "/alerts/rules", {"name": "n", "kind": "moon", "threshold": 1}, "kind"),
    (
        "POST",
        "/alerts/channels",
        {"name": "n", "kind": "webhook", "url": "ftp://example.com"},
        "url",
    ),
]


@pytest.fixture
def admin(engine: Engine, topic: str, as_role: Callable[..., Caller]) -> Caller:
    caller = as_role("admin", user="root")
    assert caller.put(_T, {"partitions": 2}).status == 200
    assert caller.put(_S, {"type": "SHARED"}).status == 201
    twice = caller.put("/topics/public/default/twice", {"deduplication": False})
    assert twice.status == 201
    caller.produce("first")
    return caller


def test_a_refusal_names_the_field(admin: Caller) -> None:
    own, wrong = admin.open(), []
    for method, path, body, field in BAD:
        text = b"" if body is None else json.dumps(body).replace("{own}", own).encode()
        found = _named(admin.send(method, path.replace("{own}", own), text))
        if found != [field]:
            wrong.append((method, path, body, found))
    assert wrong == []


def test_who_comes_with_a_cursor_is_told_that_the_log_was_cut_below_it(admin: Caller) -> None:
    read = admin.get(f"{MESSAGES}?order=committed").json["next_cursor"]
    for call, body in (("offline", {}), ("truncate", {"offset": 0}), ("online", {})):
        assert admin.post(f"{_T}/partitions/0/{call}", body | _WHY).status == 200
    told = admin.get(f"{MESSAGES}?order=committed&cursor={read}")
    assert told.is_problem(409, "LogTruncated")
    assert told.json["truncated_to"] == 0


def test_every_operation_names_a_parameter_that_it_does_not_know(admin: Caller) -> None:
    wrong = {}
    for name, (method, path, body) in REQUESTS.items():
        found = _refused(admin, method, f"{path}{'&' if '?' in path else '?'}surprise=1", body)
        if found != ["surprise"]:
            wrong[name] = found
    assert wrong == {}


def test_every_operation_names_a_field_of_the_body_that_it_does_not_know(admin: Caller) -> None:
    wrong = {}
    for name, (method, path, body) in REQUESTS.items():
        if method == "GET":
            continue
        found = _refused(admin, method, path, (body or {}) | {"surprise": 1})
        if found != ["surprise"]:
            wrong[name] = found
    assert wrong == {}


def test_every_list_names_a_cursor_and_a_limit_that_it_has_not_given(world: Caller) -> None:
    lists = {
        name: shape.query
        for pattern in urlpatterns
        if (operation := operation_of(pattern.callback.cls, "GET")) is not None
        for name, shape in [(operation.name, operation.shape)]
        if {"cursor", "limit"} <= set(shape.query.__struct_fields__)
    }
    assert len(lists) > 15
    wrong = {}
    for name in lists:
        _, path, _ = REQUESTS[name]
        for field, value in (("cursor", "!"), ("cursor", _FOREIGN), ("limit", "501")):
            found = _refused(world, "GET", f"{path.partition('?')[0]}?{field}={value}", None)
            if found != [field]:
                wrong[name, value] = found
    assert wrong == {}


def test_every_operation_with_a_body_names_the_body_when_it_is_none(admin: Caller) -> None:
    wrong = {}
    for name, (method, path, _) in REQUESTS.items():
        if method == "GET":
            continue
        for raw in (b"{", b"[]", b'{"a": 1, "a": 2}', b'"\\ud800"'):
            found = _named(admin.send(method, _somewhere(path), raw))
            if found[:1] not in ([""], ["a"]):
                wrong[name, raw] = found
    assert wrong == {}


def _refused(caller: Caller, method: str, path: str, body: Any) -> list[str]:
    text = b"" if body is None else _somewhere(json.dumps(body)).encode()
    return _named(caller.send(method, _somewhere(path), text))


def _somewhere(text: str) -> str:
    """Names that are well formed, whether there is anything of them or not."""
    return text.replace("{own}", "0:0").replace("{spare_token}", "1")


def _named(answer: Answer) -> list[str]:
    """The fields that a refusal names."""
    if answer.status != 400:
        return [f"{answer.status}: {answer.content[:200]!r}"]
    assert answer.is_problem(400, "InvalidRequest")
    assert all(each["message"] for each in answer.json["errors"])
    return [each["field"] for each in answer.json["errors"]]


def test_a_refusal_for_want_of_a_permission_names_it(as_role: Callable[..., Caller]) -> None:
    refused = as_role("viewer").post("/transactions", {})
    assert refused.is_problem(403, "PermissionDenied")
    assert "transaction.use" in refused.json["detail"]

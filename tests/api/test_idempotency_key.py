"""A call that is repeated under its Idempotency-Key has one effect and one answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.db import OperationalError, connections

from engine import Engine
from engine.model.errors import CoordinatorUnavailable, PartitionUnavailable
from tests.api.conftest import Answer, Caller
from tests.support.together import at_once
from txnconsole.access.models import Token
from txnconsole.api import idempotency_key
from txnconsole.api.decoding import JSON, MSGPACK
from txnconsole.api.endpoint import operation_of
from txnconsole.api.urls import urlpatterns
from txnconsole.audit import recording
from txnconsole.audit.models import AuditEntry
from txnconsole.idempotency.models import KeptAnswer
from txnconsole.jobs.models import Job
from txnconsole.runs.models import PipelineRun


def post(caller: Caller, path: str, body: object, key: str) -> Answer:
    return caller.send("POST", path, json.dumps(body).encode(), Idempotency_Key=key)


#: Calls that change something and always have a key of their own: a group's name, message ids, the
#: state that they ask for.
NATURAL = {
    "acknowledgeMessages",
    "addPartitions",
    "addSubscriptions",
    "commitTransaction",
    "endGroup",
}


def test_every_change_without_a_natural_key_takes_the_header() -> None:
    changes = [
        operation
        for pattern in urlpatterns
        for method in ("POST", "PUT", "PATCH", "DELETE")
        if (operation := operation_of(pattern.callback.cls, method)) is not None
    ]
    assert {each.name for each in changes if not each.shape.keyed} == NATURAL


def delete(caller: Caller, path: str, key: str) -> Answer:
    return caller.send("DELETE", path, Idempotency_Key=key)


def opened(caller: Caller) -> int:
    return len(caller.get("/transactions?limit=500").json["items"])


def test_a_transaction_is_opened_once_for_a_key(program: Caller) -> None:
    first = post(program, "/transactions", {"client": "c"}, "k-1")
    again = post(program, "/transactions", {"client": "c"}, "k-1")
    assert (again.status, again.content) == (201, first.content)
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    other = post(program, "/transactions", {"client": "c"}, "k-2")
    assert other.json["txn_id"] != first.json["txn_id"]
    assert opened(program) == 2


def test_another_request_under_the_key_is_refused(program: Caller) -> None:
    post(program, "/transactions", {"client": "c"}, "k-1")
    refused = post(program, "/transactions", {"client": "d"}, "k-1")
    assert refused.is_problem(422, "IdempotencyKeyReused")
    assert opened(program) == 1


def test_a_key_belongs_to_its_principal_and_operation(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    mine = post(program, "/transactions", {}, "k").json["txn_id"]
    others = post(as_role("producer", user="other"), "/transactions", {}, "k").json["txn_id"]
    assert mine != others
    assert post(program, f"/transactions/{mine}/extend", {"timeout_ms": 90_000}, "k").status == 200


def test_a_refusal_is_kept_too(program: Caller) -> None:
    txn_id = program.open()
    program.post(f"/transactions/{txn_id}/commit")
    path = f"/transactions/{txn_id}/abort"
    first = post(program, path, {"reason": "why"}, "k")
    assert first.is_problem(409, "InvalidTxnStatus")
    again = post(program, path, {"reason": "why"}, "k")
    assert again.content == first.content
    assert again.is_problem(409, "InvalidTxnStatus")
    assert AuditEntry.objects.filter(object=f"transaction:{txn_id}", reason="why").count() == 1


def test_a_call_that_failed_in_passing_may_be_made_again_under_its_key(
    program: Caller, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: object) -> None:
        raise CoordinatorUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(engine.coordinator, "open", away)
        failed = post(program, "/transactions", {}, "k")
    assert failed.is_problem(503, "CoordinatorUnavailable")
    assert post(program, "/transactions", {}, "k").status == 201
    assert opened(program) == 1


def test_what_a_call_failed_with_is_told_though_its_key_cannot_be_set_free(
    program: Caller, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: object) -> None:
        raise PartitionUnavailable("broker-1 is away.")

    def lost(_: object) -> None:
        raise OperationalError

    monkeypatch.setattr(engine.coordinator, "open", away)
    monkeypatch.setattr(idempotency_key, "release", lost)
    failed = post(program, "/transactions", {}, "k")
    assert failed.is_problem(503, "PartitionUnavailable")
    assert failed.json["detail"] == "broker-1 is away."


def test_a_permission_that_is_given_later_counts(as_role: Callable[..., Caller]) -> None:
    program = as_role("producer", user="other")
    others = as_role("producer", user="owner").open()
    operator = as_role("operator", "viewer", user="olga")
    path = f"/transactions/{others}/extend"
    assert post(operator, path, {"timeout_ms": 1000}, "k").status == 403
    assert KeptAnswer.objects.count() == 0
    assert post(program, path, {"timeout_ms": 1000}, "k").is_problem(404, "TransactionNotFound")


def test_a_tokens_secret_is_not_kept(as_role: Callable[..., Caller]) -> None:
    admin = as_role("admin", user="root")
    body = {"user": "root", "roles": ["viewer"]}
    first = post(admin, "/tokens", body, "k")
    again = post(admin, "/tokens", body, "k")
    assert again.status == 201
    assert again.json == first.json | {"secret": None}
    assert Token.objects.filter(roles=["viewer"]).count() == 1
    secret = first.json["secret"].encode()
    assert all(secret not in bytes(kept.body) for kept in KeptAnswer.objects.all())


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "käse"])
def test_a_malformed_key_is_refused(program: Caller, key: str) -> None:
    refused = post(program, "/transactions", {}, key)
    assert refused.is_problem(400, "InvalidRequest")
    assert refused.json["errors"][0]["field"] == "Idempotency-Key"
    assert opened(program) == 0


def test_a_batch_without_a_sequence_id_is_stored_once_under_its_key(
    program: Caller, topic: str
) -> None:
    path = f"/topics/{topic}/partitions/0/messages"
    body = {"messages": [{"payload": "x"}]}
    first, again = (post(program, path, body, "k") for _ in range(2))
    assert (first.status, again.status, again.json) == (201, 201, first.json)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert program.get(path).json["last_offset"] == 0
    other = {"messages": [{"payload": "y"}]}
    assert post(program, path, other, "k").is_problem(422, "IdempotencyKeyReused")
    assert post(program, path, body, "another").json["first_offset"] == 1


def test_a_packed_batch_is_answered_again_packed(program: Caller, topic: str) -> None:
    path = f"/topics/{topic}/partitions/0/messages"
    body = msgspec.msgpack.encode({"messages": [{"payload": b"x"}]})
    packed = "application/msgpack"
    first, again = (
        program.send("POST", path, body, content_type=packed, Accept=packed, Idempotency_Key="k")
        for _ in range(2)
    )
    assert first.msgpack["first_offset"] == 0
    assert (again.headers["Content-Type"], again.msgpack) == (packed, first.msgpack)


def test_a_batch_with_a_sequence_id_needs_no_key(program: Caller, topic: str) -> None:
    path = f"/topics/{topic}/partitions/0/messages"
    body = {"messages": [{"payload": "x"}], "producer_name": "p", "sequence_id": 1}
    assert [post(program, path, body, "k").status for _ in range(2)] == [201, 200]
    assert program.get(path).json["last_offset"] == 0


def test_what_was_deleted_is_deleted_again_under_its_key_and_is_not_there_without(
    as_role: Callable[..., Caller], topic: str
) -> None:
    admin = as_role("admin", user="root")
    assert admin.put(f"/topics/{topic}/subscriptions/s").status == 201
    rule = admin.post("/alerts/rules", {"name": "r", "kind": "held_back", "threshold": 1}).json
    body = {"name": "c", "kind": "email", "recipients": ["ops@example.com"]}
    channel = admin.post("/alerts/channels", body).json["channel"]
    for path in (
        f"/topics/{topic}/subscriptions/s",
        f"/alerts/rules/{rule['id']}",
        f"/alerts/channels/{channel['id']}",
        f"/topics/{topic}",
    ):
        first = delete(admin, path, "k")
        assert (first.status, first.content) == (204, b"")
        again = delete(admin, path, "k")
        assert (again.status, again.content) == (204, b"")
        assert "Content-Type" not in first.headers | again.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        assert admin.delete(path).status == 404
        assert delete(admin, path, "other").status == 404


def test_a_topic_that_is_made_again_outlives_the_repeated_delete_of_the_first(
    as_role: Callable[..., Caller], topic: str
) -> None:
    admin = as_role("admin", user="root")
    assert delete(admin, f"/topics/{topic}", "k").status == 204
    assert admin.put(f"/topics/{topic}").status == 201
    assert delete(admin, f"/topics/{topic}", "k").status == 204
    assert admin.get(f"/topics/{topic}").status == 200


def test_an_alert_is_tested_once_for_a_key(as_role: Callable[..., Caller]) -> None:
    admin = as_role("admin", user="root")
    body = {"name": "c", "kind": "email", "recipients": ["ops@example.com"]}
    channel = f"/alerts/channels/{admin.post('/alerts/channels', body).json['channel']['id']}"
    first = post(admin, f"{channel}/test", {}, "k")
    again = post(admin, f"{channel}/test", {}, "k")
    assert (first.status, again.content) == (200, first.content)
    assert len(admin.get(f"{channel}/messages").json["items"]) == 1


def test_calls_with_a_natural_key_ignore_the_header(program: Caller, topic: str) -> None:
    txn_id = program.open()
    for _ in range(2):
        answer = post(program, f"/transactions/{txn_id}/commit", {}, "k")
        assert answer.status == 200
        assert "Idempotency-Replayed" not in answer.headers
    assert KeptAnswer.objects.count() == 0


def test_a_receive_whose_answer_was_lost_gives_the_same_messages_under_its_key(
    program: Caller, topic: str
) -> None:
    subscription = f"/topics/{topic}/subscriptions/s"
    program.put(subscription)
    program.produce("a")
    program.produce("b")
    body = {"consumer": "c", "max_messages": 1}
    first, again = (post(program, f"{subscription}/receive", body, "k") for _ in range(2))
    assert (first.status, len(first.json["messages"])) == (200, 1)
    assert (again.status, again.content) == (200, first.content)
    other = post(program, f"{subscription}/receive", body, "k-2")
    assert [each["offset"] for each in first.json["messages"] + other.json["messages"]] == [0, 1]
    packed = "application/msgpack"
    raw = msgspec.msgpack.encode(body | {"consumer": "d"})
    empty, repeated = (
        program.send(
            "POST",
            f"{subscription}/receive",
            raw,
            content_type=packed,
            Accept=packed,
            Idempotency_Key="k-3",
        )
        for _ in range(2)
    )
    assert empty.msgpack == repeated.msgpack == {"messages": []}


@pytest.mark.parametrize(("first", "again"), [(JSON, MSGPACK), (MSGPACK, JSON)])
def test_an_answer_is_repeated_in_the_media_type_that_the_repeated_call_asks_for(
    program: Caller, topic: str, first: str, again: str
) -> None:
    messages = f"/topics/{topic}/partitions/0/messages"
    subscription = f"/topics/{topic}/subscriptions/s"
    program.put(subscription)
    payloads = ["käse".encode(), b"\xff\x00", b""]
    batch = msgspec.msgpack.encode({"messages": [{"payload": each} for each in payloads]})
    consume = msgspec.msgpack.encode({"consumer": "c"})
    seen = {}
    for path, body in ((messages, batch), (f"{subscription}/receive", consume)):
        for accept in (first, again, first):
            answer = program.send(
                "POST", path, body, content_type=MSGPACK, Accept=accept, Idempotency_Key="k"
            )
            assert (answer.status // 100, answer.headers["Content-Type"]) == (2, accept)
            seen.setdefault((path, accept), []).append(answer)
    for path in (messages, f"{subscription}/receive"):
        one, repeated = seen[path, first]
        assert repeated.content == one.content
        assert [each.headers["Idempotency-Replayed"] for each in seen[path, again]] == ["true"]
    packed, plain = (seen[f"{subscription}/receive", each][0] for each in (MSGPACK, JSON))
    assert [each["payload"] for each in packed.msgpack["messages"]] == payloads
    assert [(each["payload"], each["payload_encoding"]) for each in plain.json["messages"]] == [
        ("käse", "utf-8"),
        ("/wA=", "base64"),
        ("", "utf-8"),
    ]
    assert _without_payloads(plain.json) == _without_payloads(packed.msgpack)
    assert seen[messages, JSON][0].json == seen[messages, MSGPACK][0].msgpack


def _without_payloads(answer: Any) -> Any:
    payload = {"payload", "payload_encoding"}
    return [
        {name: value for name, value in message.items() if name not in payload}
        for message in answer["messages"]
    ]


def test_a_refusal_is_repeated_as_a_problem_whatever_form_is_asked_for(
    program: Caller, topic: str
) -> None:
    path = f"/topics/{topic}/partitions/7/messages"
    body = msgspec.msgpack.encode({"messages": [{"payload": b"x"}]})
    for accept in (JSON, MSGPACK):
        refused = program.send(
            "POST", path, body, content_type=MSGPACK, Accept=accept, Idempotency_Key="k"
        )
        assert refused.is_problem(404, "PartitionNotFound")
    assert refused.headers["Idempotency-Replayed"] == "true"


def test_what_was_given_back_under_a_key_is_not_given_back_again_when_it_has_come_again(
    program: Caller, topic: str
) -> None:
    subscription = f"/topics/{topic}/subscriptions/s"
    program.put(subscription)
    program.produce("a")
    received = program.post(f"{subscription}/receive", {"consumer": "c"}).json["messages"]
    body = {"consumer": "c", "message_ids": [received[0]["message_id"]]}
    for call, given in (("nack", body), ("leave", {"consumer": "c"})):
        assert post(program, f"{subscription}/{call}", given, "k").status == 204
        program.post(f"{subscription}/receive", {"consumer": "c"})
        repeated = post(program, f"{subscription}/{call}", given, "k")
        assert (repeated.status, repeated.headers["Idempotency-Replayed"]) == (204, "true")
        other = program.post(f"{subscription}/receive", {"consumer": "d", "wait_ms": 0})
        assert other.json["messages"] == []


def test_a_call_beyond_the_quota_is_refused_before_it_is_carried_out(
    program: Caller, as_role: Callable[..., Caller], settings: Any
) -> None:
    first = post(program, "/transactions", {}, "k-1")
    settings.KEPT_ANSWERS_BYTES = 1
    refused = post(program, "/transactions", {}, "k-2")
    assert refused.is_problem(429, "LimitExceeded")
    assert (refused.json["limit_bytes"], refused.json["retryable"]) == (1, True)
    assert "TXNCONSOLE_KEPT_ANSWERS_BYTES" in refused.json["detail"]
    assert 500 < int(refused.headers["Retry-After"]) <= 600
    assert opened(program) == 1
    assert post(program, "/transactions", {}, "k-1").content == first.content
    assert program.post("/transactions", {}).status == 201
    assert post(as_role("producer", user="other"), "/transactions", {}, "k-2").status == 201


def test_an_answer_beyond_the_quota_is_given_and_its_repetition_says_that_it_was_carried_out(
    program: Caller, topic: str, settings: Any
) -> None:
    settings.KEPT_ANSWERS_BYTES = 5000
    subscription = f"/topics/{topic}/subscriptions/s"
    program.put(subscription)
    program.produce("x" * 5000)
    body = {"consumer": "c"}
    first, again = (post(program, f"{subscription}/receive", body, "k") for _ in range(2))
    assert [each["payload"] for each in first.json["messages"]] == ["x" * 5000]
    assert again.is_problem(409, "AnswerNotKept")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json["retryable"] is False


@pytest.mark.django_db(transaction=True)
def test_calls_at_the_same_time_under_one_key_open_one_transaction(
    engine: Engine, as_role: Callable[..., Caller]
) -> None:
    program = as_role("producer", user="program")
    answers = at_once(4, lambda _: post(program, "/transactions", {}, "k"))
    assert [answer.status for answer in answers] == [201] * 4
    assert len({answer.content for answer in answers}) == 1
    assert opened(program) == 1


@pytest.mark.django_db(transaction=True)
def test_a_call_whose_first_is_still_under_way_is_told_to_come_back(
    engine: Engine, as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency_key, "PATIENCE_MS", 20)
    program = as_role("producer", user="program")
    inside, go_on = threading.Event(), threading.Event()
    open_really = engine.coordinator.open

    def slow(**options: object) -> object:
        inside.set()
        assert go_on.wait(60)
        return open_really(**options)  # type: ignore[arg-type]

    monkeypatch.setattr(engine.coordinator, "open", slow)
    answers: list[Answer] = []

    def call() -> None:
        answers.append(post(program, "/transactions", {}, "k"))
        connections.close_all()

    thread = threading.Thread(target=call)
    thread.start()
    assert inside.wait(60)
    early = post(program, "/transactions", {}, "k")
    go_on.set()
    thread.join()
    assert early.is_problem(409, "IdempotencyKeyInUse")
    assert early.json["retryable"] is True
    assert early.headers["Retry-After"] == "1"
    assert post(program, "/transactions", {}, "k").content == answers[0].content
    assert opened(program) == 1


def test_a_seek_that_is_repeated_takes_back_nothing_that_was_read_since(
    program: Caller, topic: str
) -> None:
    subscription = f"/topics/{topic}/subscriptions/s"
    program.put(subscription, {"type": "SHARED"})
    program.produce("a", "b")
    first = post(program, f"{subscription}/seek", {"earliest": True}, "k-1")
    assert first.status == 200, first.content
    received = program.post(f"{subscription}/receive", {"consumer": "c"}).json["messages"]
    ids = [message["message_id"] for message in received]
    program.post(f"{subscription}/ack", {"consumer": "c", "message_ids": ids})
    again = post(program, f"{subscription}/seek", {"earliest": True}, "k-1")
    assert (again.status, again.content) == (200, first.content)
    nothing = program.post(f"{subscription}/receive", {"consumer": "c", "wait_ms": 0})
    assert nothing.json["messages"] == []


def test_what_is_kept_of_a_question_cannot_be_found_by_trying(
    as_role: Callable[..., Caller], settings: Any
) -> None:
    """A body may hold a password: the table has no plain digest of it."""
    admin, seen = as_role("admin"), []
    for secret in ("one-secret", "another"):
        settings.SECRET_KEY = secret
        assert post(admin, "/transactions", {"client": "c"}, f"key-{secret}").status == 201
        seen.append(bytes(KeptAnswer.objects.get(key=f"key-{secret}").digest))
    assert len(set(seen)) == 2


def test_a_call_that_is_repeated_while_the_secret_is_changed_gets_its_first_answer(
    program: Caller, settings: Any
) -> None:
    def opening(client: str) -> Answer:
        return post(program, "/transactions", {"client": client}, "k")

    first = opening("c")
    earlier, settings.SECRET_KEY = settings.SECRET_KEY, "another"
    assert opening("c").is_problem(422, "IdempotencyKeyReused")
    settings.SECRET_KEY_FALLBACKS = [earlier]
    assert opening("c").content == first.content
    assert opening("d").is_problem(422, "IdempotencyKeyReused")
    assert opened(program) == 1


@pytest.mark.parametrize(
    ("path", "body", "made"),
    [
        ("/pipeline/runs", {"kind": "audit"}, PipelineRun),
        (
            "/transactions/bulk-abort",
            {"filter": {"owner": "nobody"}, "reason": "stuck", "expected_count": 0},
            Job,
        ),
    ],
)
def test_what_could_not_be_recorded_is_not_there_and_is_made_once_when_it_is_asked_for_again(
    path: str,
    body: object,
    made: type[PipelineRun | Job],
    as_role: Callable[..., Caller],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = as_role("operator")
    append = recording._append

    def lost(_: object) -> None:
        raise OperationalError

    monkeypatch.setattr(recording, "_append", lost)
    assert post(operator, path, body, "k").is_problem(503, "CoordinatorUnavailable")
    monkeypatch.setattr(recording, "_append", append)
    assert post(operator, path, body, "k").status == 202
    assert made.objects.count() == 1

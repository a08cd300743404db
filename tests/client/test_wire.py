from __future__ import annotations

import pickle
import subprocess
import sys

import msgspec
import pytest

from txnconsole.client import calls
from txnconsole.client.answers import Nothing, Received, TransactionOutcome
from txnconsole.client.errors import (
    InvalidTxnStatus,
    TransactionConflict,
    TxnConsoleError,
    UnexpectedAnswer,
    Unreachable,
)
from txnconsole.client.wire import Call

OUTCOME = calls.outcome("3:42")
PROBLEM = {"content-type": "application/problem+json"}


def test_an_answer_becomes_a_typed_value() -> None:
    body = b'{"txn_id": "3:42", "outcome": "ABORTED", "added_later": 1}'
    answer = OUTCOME.read(200, {"content-type": "application/json; charset=utf-8"}, body)
    assert answer == TransactionOutcome(txn_id="3:42", outcome="ABORTED")


def test_payloads_travel_as_raw_bytes() -> None:
    message = {
        "message_id": "0:5:0:0",
        "offset": 5,
        "partition": 0,
        "payload": b"\xff\x00",
        "publish_time": "2026-01-31T12:00:00.000001Z",
        "redelivery_count": 2,
    }
    call = calls.receive("a/b/c", "s", consumer="c", max_messages=1, wait_ms=0)
    assert call.headers()["Accept"].startswith("application/msgpack")
    body = msgspec.msgpack.encode({"messages": [message]})
    answer = call.read(200, {"content-type": "application/msgpack"}, body)
    assert isinstance(answer, Received)
    assert answer.messages[0].payload == b"\xff\x00"
    assert answer.messages[0].publish_time.microsecond == 1


def test_a_problem_becomes_the_error_of_its_code() -> None:
    body = b'{"title": "T", "status": 409, "detail": "No.", "code": "InvalidTxnStatus",'
    body += b'"current_status": "ABORTED"}'
    with pytest.raises(InvalidTxnStatus, match=r"^No\.$") as caught:
        OUTCOME.read(409, PROBLEM, body)
    assert caught.value.status == 409
    assert caught.value.data == {"current_status": "ABORTED"}


def test_a_code_of_a_later_server_is_kept() -> None:
    with pytest.raises(TxnConsoleError) as caught:
        OUTCOME.read(418, PROBLEM, b'{"code": "Teapot", "detail": "Short and stout."}')
    assert type(caught.value) is TxnConsoleError
    assert caught.value.code == "Teapot"
    assert TxnConsoleError.code == "TxnConsoleError"
    assert TransactionConflict.code == "TransactionConflict"


def test_what_a_call_raises_can_be_sent_to_another_process() -> None:
    """A pool of processes whose worker raises anything else breaks, or waits for ever."""
    conflict = TransactionConflict("No.", status=409, retry_after=1.5, data={"txn_id": "3:42"})
    for error in (conflict, Unreachable("No answer.", maybe_sent=False)):
        sent = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (type(sent), str(sent), vars(sent)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    "body", [b"<html>", b"", b"[]", b'{"message": "no route"}', b'{"code": 404, "errors": ["x"]}']
)
def test_an_error_page_of_a_proxy_is_an_error_too(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer) as caught:
        OUTCOME.read(502, {"content-type": "text/html", "retry-after": "3"}, body)
    assert caught.value.status == 502
    assert caught.value.retry_after == 3
    assert "GET /transactions/3:42/outcome" in str(caught.value)


@pytest.mark.parametrize(
    ("retry_after", "date", "seconds"),
    [
        ("3", None, 3),
        ("Sat, 31 Jan 2026 12:00:07 GMT", "Sat, 31 Jan 2026 12:00:00 GMT", 7),
        ("Sat, 31 Jan 2026 12:00:07 GMT", "Sat, 31 Jan 2026 12:01:00 GMT", 0),
        ("Sat, 31 Jan 2026 12:00:07 GMT", None, None),
        ("Sat, 31 Jan 2026 12:00:07 -0000", "Sat, 31 Jan 2026 12:00:00 GMT", None),
        ("Sat, 31 Jan 2026 12:00:07 GMT", "yesterday", None),
        ("soon", "Sat, 31 Jan 2026 12:00:00 GMT", None),
        ("-1", "Sat, 31 Jan 2026 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date_beside_that_of_the_answer(
    retry_after: str, date: str | None, seconds: int | None
) -> None:
    headers = {"retry-after": retry_after} | ({} if date is None else {"date": date})
    with pytest.raises(UnexpectedAnswer) as caught:
        OUTCOME.read(429, headers, b"")
    assert caught.value.retry_after == seconds


def test_where_a_proxy_leads_to_is_told_and_not_gone_to() -> None:
    with pytest.raises(UnexpectedAnswer, match=r"HTTP 301, which leads to 'https://other/x', and"):
        OUTCOME.read(301, {"location": "https://other/x"}, b"")


@pytest.mark.parametrize(
    ("media_type", "body"),
    [("text/html", b"<html>"), ("application/json", b'{"outcome": 1}'), ("", b"")],
)
def test_a_success_that_cannot_be_read_is_an_error(media_type: str, body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        OUTCOME.read(200, {"content-type": media_type}, body)


def test_an_empty_answer_needs_no_media_type() -> None:
    call = Call(method="POST", path="/x", answer=Nothing)
    assert call.read(204, {}, b"") == Nothing()


def test_names_are_quoted_in_paths() -> None:
    call = calls.get_subscription("a/b/c?d", "x#..%y")
    assert call.path == "/topics/a/b/c%3Fd/subscriptions/x%23..%25y"


@pytest.mark.parametrize("topic", ["flights", "a/b", "a/b/c/d", "a//c", ""])
def test_a_topic_has_three_parts(topic: str) -> None:
    with pytest.raises(ValueError, match="tenant/namespace/topic"):
        calls.get_topic(topic)


def test_a_batch_may_be_repeated_only_with_a_producer_and_a_sequence_id() -> None:
    def idempotent(name: str | None, sequence_id: int | None, deduplication: bool = True) -> bool:
        return calls.produce(
            "a/b/c",
            0,
            [],
            txn_id=None,
            producer_name=name,
            sequence_id=sequence_id,
            deduplication=deduplication,
        ).idempotent

    assert idempotent("p", 0)
    assert not idempotent("p", None)
    assert not idempotent(None, 0)
    assert not idempotent("p", 0, deduplication=False)


#: Types with others in them, each read for the first time by four threads at once.
_FIRST_ANSWERS = """
import sys
import threading

import msgspec

from txnconsole.client.wire import JSON, MSGPACK, Call

sys.setswitchinterval(1e-6)
for number in range(100):
    fields = [(f"field_{n}", "int | str | None") for n in range(20)]
    inner = msgspec.defstruct("Inner", fields)
    outer = msgspec.defstruct("Outer", [("one", inner), ("more", "list"), *fields])
    some = {f"field_{n}": n for n in range(20)}
    value = {"one": some, "more": [], **some}
    media_type, coder = (JSON, msgspec.json) if number % 2 else (MSGPACK, msgspec.msgpack)
    body, read = coder.encode(value), []
    call = Call(method="GET", path="/", answer=outer)
    start = threading.Barrier(4)

    def ask():
        start.wait()
        read.append(call.read(200, {"content-type": media_type}, body).one.field_19)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [19] * 4, read
"""


@pytest.mark.programs
def test_threads_may_read_the_first_answers_of_a_kind_at_once() -> None:
    """Of a type that is being made ready msgspec reads nothing: the process is gone."""
    command = [sys.executable, "-X", "faulthandler", "-c", _FIRST_ANSWERS]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Sequence

import pytest
from django.db import InterfaceError, OperationalError
from django.urls import URLPattern

from engine.model import errors as engine_errors
from engine.model.errors import EngineError, NotFound
from tests.api.conftest import MESSAGES, TOPIC, Caller
from txnconsole import urls
from txnconsole.api.urls import urlpatterns as urls_of_programs
from txnconsole.api.views import transactions
from txnconsole.pulsar.urls import urlpatterns as urls_of_pulsar
from txnconsole.statuses import STATUS_OF_CODE


def _all(kind: type[EngineError]) -> Iterator[type[EngineError]]:
    yield kind
    for each in kind.__subclasses__():
        if not each.__module__.startswith("tests."):
            yield from _all(each)


def test_every_error_that_the_server_raises_has_its_status() -> None:
    assert urls.urlpatterns  # They import all that raises any.
    codes = {each.code for each in _all(EngineError) if each is not EngineError}
    assert codes >= {"TransactionConflict", "AlertConflict", "JobNotFound"}
    # A snapshot that is damaged is passed over; if that got out it would be a failure, 500.
    assert codes - set(STATUS_OF_CODE) == {"CorruptSnapshot"}


def test_what_there_is_none_of_is_404() -> None:
    """Of every kind of thing that the server knows."""
    codes = {each.code for each in _all(NotFound)}
    assert codes >= {"TopicNotFound", "UserNotFound", "RunNotFound"}
    assert codes == {code for code, status in STATUS_OF_CODE.items() if status == 404}


def test_an_unknown_address_is_a_problem_document_whatever_the_method(program: Caller) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
        assert program.send(method, "/nothing/here").is_problem(404, "NotFound")
    assert Caller().get("/nothing").is_problem(404, "NotFound")
    for accept in ("application/msgpack, application/problem+json", "text/html", "garbage"):
        assert program.get("/nothing", Accept=accept).is_problem(404, "NotFound"), accept


def test_an_unknown_address_beside_the_version_is_one_too(db: None) -> None:
    assert Caller().send("GET", "/../v2/topics").is_problem(404, "NotFound")


@pytest.mark.parametrize("method", ["PATCH", "DELETE", "TRACE", "OPTIONS", "BREW"])
def test_a_method_that_the_address_does_not_know_is_405_with_those_that_it_does(
    method: str, program: Caller
) -> None:
    answer = program.send(method, "/transactions")
    assert answer.is_problem(405, "MethodNotAllowed")
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "POST", "HEAD"}


@pytest.mark.parametrize("urlpatterns", [urls_of_programs, urls_of_pulsar])
def test_a_method_that_no_address_knows_is_405_everywhere_whoever_asks(
    urlpatterns: Sequence[URLPattern], as_role: Callable[..., Caller]
) -> None:
    """Nobody is known behind a request that needs no permission, so nothing may ask who it is."""
    addresses = [re.sub("<[^>]*>", "1", str(each.pattern)) for each in urlpatterns]
    paths = [f"/{address}" for address in addresses if address]  # Without that of any other.
    base = "/api/v1" if urlpatterns is urls_of_programs else "/admin/v3/transactions"
    for caller in (Caller(), as_role("admin", topics="public/other/*")):
        for path in paths:
            answer = caller.send("BREW", path, base=base)
            assert answer.is_problem(405, "MethodNotAllowed"), path


def test_the_base_path_itself_is_one_too(db: None) -> None:
    for path in ("", "/"):
        assert Caller().send("GET", path).is_problem(404, "NotFound")


def test_no_acceptable_form_is_406_and_told_which_there_are(program: Caller, topic: str) -> None:
    answer = program.get("/topics", Accept="text/csv")
    assert answer.is_problem(406, "NotAcceptable")
    assert "application/json" in answer.json["detail"]
    answer = program.get(MESSAGES, Accept="application/json;q=0, text/csv")
    assert answer.is_problem(406, "NotAcceptable")
    assert "application/json or application/msgpack" in answer.json["detail"]
    assert program.get("/topics", Accept="application/msgpack").is_problem(406, "NotAcceptable")
    assert program.get(MESSAGES, Accept="application/msgpack").status == 200
    assert program.get("/topics", Accept="text/html,*/*;q=0.8").status == 200


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("application/json;q=0.1, application/msgpack;q=0.9", "application/msgpack"),
        ("application/msgpack;q=0.1, application/json", "application/json"),
        ("application/msgpack, */*;q=0.1", "application/msgpack"),
        ("application/json;q=0, */*", "application/msgpack"),
        ("*/*;q=0.5, application/msgpack; Q=0.4", "application/json"),
        ("application/*", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("application/json; x*=none'x'y", "application/json"),
        ("application/msgpack;q=high", "application/msgpack"),
        ("", "application/json"),
    ],
)
def test_of_two_forms_the_caller_gets_the_one_it_gives_more_weight(
    accept: str, given: str, program: Caller, topic: str
) -> None:
    answer = program.get(MESSAGES, Accept=accept)
    assert (answer.status, answer.headers["Content-Type"]) == (200, given)


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "multipart/form-data"])
def test_another_form_of_body_is_415_and_told_which_it_takes(
    content_type: str, program: Caller, topic: str
) -> None:
    answer = program.send("POST", "/transactions", b"{}", content_type=content_type)
    assert answer.is_problem(415, "UnsupportedMediaType")
    assert "as application/json, not " in answer.json["detail"]
    answer = program.send("POST", MESSAGES, b"{}", content_type=content_type)
    assert answer.is_problem(415, "UnsupportedMediaType")
    assert "as application/json or application/msgpack, not" in answer.json["detail"]


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip"])
def test_a_body_in_a_content_coding_is_415_and_told_so(coding: str, program: Caller) -> None:
    packed = gzip.compress(b"{}")
    answer = program.send("POST", "/transactions", packed, Content_Encoding=coding)
    assert answer.is_problem(415, "UnsupportedMediaType")
    assert "Content-Encoding" in answer.json["detail"]
    plain = program.send("POST", "/transactions", b"{}", Content_Encoding="identity")
    assert plain.status == 201


def test_messagepack_is_taken_by_the_hot_calls_only(program: Caller) -> None:
    answer = program.send("POST", "/transactions", b"\x80", content_type="application/msgpack")
    assert answer.is_problem(415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "error",
    [
        engine_errors.PartitionUnavailable("broker-1 cannot be reached"),
        engine_errors.CoordinatorUnavailable(),
    ],
)
def test_what_may_pass_says_when_to_try_again(
    error: EngineError, program: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_with(error, monkeypatch)
    answer = program.get("/transactions")
    assert answer.is_problem(503, error.code)
    assert answer.headers["Retry-After"] == "1"
    assert answer.json["retryable"] is True


def test_what_does_not_pass_by_itself_names_no_time_for_another_try(
    program: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_with(engine_errors.SegmentUnreadable(file="segment-1"), monkeypatch)
    answer = program.get("/transactions")
    assert answer.is_problem(503, "SegmentUnreadable")
    assert answer.json["retryable"] is False
    assert "Retry-After" not in answer.headers


@pytest.mark.parametrize("error", [OperationalError("FATAL: p4ssw0rd"), InterfaceError("closed")])
def test_when_django_cannot_reach_its_tables_the_coordinators_are_unavailable(
    error: Exception, program: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a PostgreSQL that was killed between a decision and its audit entry does."""
    _fail_with(error, monkeypatch)
    answer = program.get("/transactions")
    assert answer.is_problem(503, "CoordinatorUnavailable")
    assert answer.headers["Retry-After"] == "1"
    assert answer.json["retryable"] is True
    assert b"p4ssw0rd" not in answer.content


def test_what_an_error_knows_stands_in_the_answer(program: Caller) -> None:
    txn_id = program.open()
    assert program.post(f"/transactions/{txn_id}/commit").status == 200
    answer = program.post(f"/transactions/{txn_id}/abort")
    assert answer.is_problem(409, "InvalidTxnStatus")
    assert answer.json["current_status"] == "COMMITTING"


def test_a_failure_that_nobody_expected_tells_nothing_of_itself(
    program: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_with(RuntimeError("password=hunter2"), monkeypatch)
    answer = program.get("/transactions")
    assert answer.is_problem(500, "InternalError")
    assert b"hunter2" not in answer.content


def test_an_unknown_engine_error_is_500_under_its_own_code(
    program: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CorruptBatch(EngineError):
        """A stored batch cannot be read back."""

        code = "CorruptBatch"

    _fail_with(CorruptBatch(), monkeypatch)
    assert program.get("/transactions").is_problem(500, "CorruptBatch")


def test_a_wrong_host_is_a_problem_document_that_names_what_to_set(program: Caller) -> None:
    answer = program.get("/topics", Host="evil.example")
    assert answer.is_problem(400, "InvalidRequest")
    assert "ALLOWED_HOSTS" in answer.json["detail"]
    assert [each["field"] for each in answer.json["errors"]] == ["Host"]


def test_too_many_parameters_are_told_as_such(program: Caller) -> None:
    answer = program.get("/transactions?" + "&".join(["status=OPEN"] * 2000))
    assert answer.is_problem(400, "InvalidRequest")
    assert "too many parameters" in answer.json["detail"]
    assert [each["field"] for each in answer.json["errors"]] == [""]


def test_every_answer_keeps_itself_out_of_caches_and_names_its_request(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    answers = [program.get("/topics"), program.get("/nothing"), Caller().get("/topics")]
    viewer = as_role("viewer")
    elsewhere = ("/metrics", "/admin/v3/transactions/coordinators", "/readyz")
    answers += [viewer.send("GET", path, base="") for path in elsewhere]
    for answer in answers:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Request-ID"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/transactions/0:99", "TransactionNotFound"),
        ("/transactions/65535:0", "CoordinatorNotFound"),
        ("/transactions/77:1/outcome", "CoordinatorNotFound"),
        ("/transactions/77:1/log", "CoordinatorNotFound"),
        ("/topics/public/default/none", "TopicNotFound"),
        (f"/topics/{TOPIC}/partitions/9", "PartitionNotFound"),
        (f"/topics/{TOPIC}/subscriptions/none", "SubscriptionNotFound"),
        ("/coordinators/4000", "CoordinatorNotFound"),
    ],
)
def test_what_is_not_there_is_404_under_its_own_code(
    path: str, code: str, topic: str, as_role: Callable[..., Caller]
) -> None:
    assert as_role("admin").get(path).is_problem(404, code)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/transactions/abc", "txn_id"),
        ("/transactions/1", "txn_id"),
        ("/transactions/-1:2", "txn_id"),
        ("/transactions/1:99999999999999999999", "txn_id"),
        ("/transactions/65536:0", "txn_id"),
        ("/transactions/%D9%A1:%D9%A2", "txn_id"),
        ("/transactions/1:2%00", "txn_id"),
        ("/topics/public/default/a%20b", "topic"),
        ("/topics/public/default/..", "topic"),
        (f"/topics/{TOPIC}/partitions/x", "partition"),
        (f"/topics/{TOPIC}/partitions/-1", "partition"),
        (f"/topics/{TOPIC}/partitions/99999999999", "partition"),
        (f"/topics/{TOPIC}/subscriptions/a%20b", "subscription"),
    ],
)
def test_a_malformed_name_in_the_path_is_400_and_named(
    path: str, field: str, topic: str, as_role: Callable[..., Caller]
) -> None:
    answer = as_role("admin").get(path)
    assert answer.is_problem(400, "InvalidRequest")
    assert [each["field"] for each in answer.json["errors"]] == [field]


def _fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(transactions, "engine", fail)

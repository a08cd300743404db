"""A request that is not done in time is given up, says so, and can be made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytest_django import Settings

from engine import Engine
from engine.model.txn_id import TxnID
from engine.postgres import deadlines
from tests.api.conftest import MESSAGES, Caller
from tests.support.databases import Databases
from txnconsole.audit.models import AuditEntry
from txnconsole.enginedb import wiring


@pytest.fixture
def hasty(engine: Engine, settings: Settings) -> Iterator[None]:
    """A web process whose statements have two seconds."""
    wiring.close()
    settings.STATEMENT_TIMEOUT_MS = 2_000
    yield
    wiring.close()


@pytest.mark.waits
def test_a_call_that_meets_a_locked_row_is_given_up_and_says_what_to_do(
    hasty: None, program: Caller, databases: Databases
) -> None:
    txn_id = program.open()
    with databases.header_locked(TxnID.parse(txn_id)):
        answer = program.post(f"/transactions/{txn_id}/commit")
        assert answer.is_problem(504, "TimeLimitExceeded")
        assert answer.headers["Retry-After"] == "1"
        assert (answer.json["retryable"], answer.json["limit_ms"]) == (True, 30_000)
        assert "make the same call again" in answer.json["detail"]
        assert AuditEntry.objects.get().result == "TimeLimitExceeded"
        assert program.get(f"/transactions/{txn_id}").json["status"] == "OPEN"
    assert program.post(f"/transactions/{txn_id}/commit").status == 200


def test_a_call_that_is_late_between_two_steps_is_given_up_whole(
    program: Caller, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition is registered; then the append does not begin any more."""
    txn_id = program.open()
    log = wiring.engine().log
    append = log.append

    def late(*given: object, **options: object) -> object:
        with monkeypatch.context() as patched:
            patched.setattr(deadlines, "monotonic", lambda: float("inf"))
            return append(*given, **options)  # type: ignore[arg-type]

    message = {
        "txn_id": txn_id,
        "producer_name": "p",
        "sequence_id": 0,
        "messages": [{"payload": "a"}],
    }
    with monkeypatch.context() as patched:
        patched.setattr(log, "append", late)
        assert program.post(MESSAGES, message).is_problem(504, "TimeLimitExceeded")
    assert program.get(f"{MESSAGES}?isolation=read_uncommitted").json["messages"] == []
    again = program.post(MESSAGES, message)
    assert (again.status, again.json["first_offset"]) == (201, 0)


def test_what_has_been_done_is_recorded_however_late_it_is(
    program: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn_id = program.open()
    coordinator = wiring.engine().coordinator
    end = coordinator.end
    with monkeypatch.context() as patched:

        def decided(*given: object, **options: object) -> object:
            answer = end(*given, **options)  # type: ignore[arg-type]
            patched.setattr(deadlines, "monotonic", lambda: float("inf"))
            return answer

        patched.setattr(coordinator, "end", decided)
        answer = program.send(
            "POST", f"/transactions/{txn_id}/abort", b"{}", Idempotency_Key="once"
        )
    assert answer.status == 200
    assert AuditEntry.objects.get().result == "done"
    again = program.send("POST", f"/transactions/{txn_id}/abort", b"{}", Idempotency_Key="once")
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.waits
def test_a_key_whose_call_was_given_up_is_free_for_the_next(
    hasty: None, program: Caller, databases: Databases
) -> None:
    txn_id = program.open()
    path = f"/transactions/{txn_id}/extend"
    body = b'{"timeout_ms": 60000}'
    with databases.header_locked(TxnID.parse(txn_id)):
        answer = program.send("POST", path, body, Idempotency_Key="later")
        assert answer.is_problem(504, "TimeLimitExceeded")
    again = program.send("POST", path, body, Idempotency_Key="later")
    assert (again.status, "Idempotency-Replayed" in again.headers) == (200, False)


def test_djangos_own_statements_keep_the_deadline(
    as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = as_role("admin")
    assert admin.get("/me").status == 200  # The process knows the token from here on.
    monkeypatch.setattr(deadlines, "monotonic", iter([0.0, *[1e9] * 99]).__next__)
    answer = admin.get("/tokens")
    assert answer.is_problem(504, "TimeLimitExceeded")
    assert "again" not in answer.json["detail"]  # Reading changes nothing.

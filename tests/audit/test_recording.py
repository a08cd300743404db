from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from django.db import connection, transaction

from engine.model.errors import InvalidRequest
from tests.support.together import at_once
from txnconsole.audit import recording
from txnconsole.audit.chain import head, verify
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.recording import Actor, Change, record, recorded

WHO = Actor("ann", 7, "request-1")


@pytest.mark.django_db
def test_an_entry_holds_everything_that_was_said() -> None:
    record(
        Change(
            WHO, "transaction.abort", "transaction:1:2", "stuck", {"s": "OPEN"}, {"s": "ABORTING"}
        )
    )
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert (entry.who, entry.token_id, entry.request_id) == ("ann", 7, "request-1")
    assert (entry.action, entry.object, entry.reason) == (
        "transaction.abort",
        "transaction:1:2",
        "stuck",
    )
    assert (entry.before, entry.after, entry.result) == (
        '{"s":"OPEN"}',
        '{"s":"ABORTING"}',
        "done",
    )


@pytest.mark.django_db
def test_a_failed_attempt_is_recorded_with_its_code_and_the_error_goes_on() -> None:
    class Refused(Exception):
        code = "InvalidTxnStatus"

    def attempt(error: Exception) -> None:
        with recorded(Change(WHO, "x", "y")) as recording:
            recording.before = {"status": "COMMITTED"}
            raise error

    for error in (Refused(), ZeroDivisionError()):
        with pytest.raises(type(error)):
            attempt(error)
    second, first = AuditEntry.objects.order_by("-sequence")[:2]
    assert (first.result, first.before) == ("InvalidTxnStatus", '{"status":"COMMITTED"}')
    assert second.result == "ZeroDivisionError"


@pytest.mark.django_db(transaction=True)
def test_an_entry_is_gone_with_the_transaction_that_it_was_written_in() -> None:
    before = head()
    with transaction.atomic():
        record(Change(WHO, "x", "y"))
        transaction.set_rollback(True)
    assert head() == before
    record(Change(WHO, "x", "y"))
    assert head()[0] == before[0] + 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (Change(WHO, "transaction.commit", "transaction:0:1"), "off"),
        (Change(WHO, "transaction.abort", "transaction:0:1", "stuck"), "on"),
        (Change(WHO, "topic.delete", "topic:a/b/c"), "on"),
    ],
)
def test_only_a_programs_ends_do_not_wait_for_the_disk(change: Change, setting: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = on")
        record(change)
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == (setting,)
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        record(Change(WHO, "transaction.commit", "transaction:0:1"))
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)
        cursor.execute("RESET synchronous_commit")


@pytest.mark.django_db(transaction=True)
def test_entries_of_callers_who_come_at_once_are_all_there_and_chained() -> None:
    before, _ = head()

    def work(caller: int) -> None:
        for number in range(10):
            reason = "" if number % 2 else "why"
            record(Change(WHO, "transaction.commit", f"transaction:{caller}:{number}", reason))

    at_once(8, work)
    added = AuditEntry.objects.filter(sequence__gt=before, action="transaction.commit")
    assert len({entry.object for entry in added}) == len(added) == 80
    for caller in range(8):
        mine = [e.object for e in added.order_by("sequence") if f":{caller}:" in e.object]
        assert mine == [f"transaction:{caller}:{number}" for number in range(10)]
    assert verify().fault is None


@pytest.mark.django_db(transaction=True)
def test_what_cannot_be_stored_of_one_caller_costs_no_other_its_entry() -> None:
    """Callers who come at once share a statement, which PostgreSQL refuses as a whole."""
    before, _ = head()
    good, bad = Change(WHO, "x", "good"), Change(Actor("ann", 2**70), "x", "bad")
    first, refused, last = recording._append_alone([good, bad, good])
    assert (first, last) == (None, None)
    assert isinstance(refused, InvalidRequest)
    assert [each.object for each in AuditEntry.objects.filter(sequence__gt=before)] == ["good"] * 2
    with pytest.raises(InvalidRequest):
        record(bad)
    assert verify().fault is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("letter", ["x", "\U00020000"])
def test_of_an_object_as_much_is_kept_as_an_index_takes(letter: str) -> None:
    """The address of a refused change is whatever somebody has made up. Random, since PostgreSQL
    compresses what repeats itself."""
    random = Random(1)  # noqa: S311
    name = "".join(chr(ord(letter) + random.randrange(60)) for _ in range(5000))
    record(Change(WHO, "topic.put", f"PUT /{name}", result="PermissionDenied"))
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert entry.object == f"PUT /{name[:595]}…"
    assert verify().fault is None


@pytest.mark.django_db(transaction=True)
def test_an_entry_that_waits_for_the_disk_shares_no_commit_with_one_that_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statements: list[list[Change]] = []
    insert = recording._append_alone

    def noted(changes: Sequence[Change]) -> list[InvalidRequest | None]:
        statements.append(list(changes))
        return insert(changes)

    for combiner in recording._together.values():
        monkeypatch.setattr(combiner, "_call", noted)
    for reason in ("", "why"):
        record(Change(WHO, "transaction.abort", "transaction:1:1", reason))
    assert [[change.reason for change in each] for each in statements] == [[""], ["why"]]
    assert recording._together[True] is not recording._together[False]

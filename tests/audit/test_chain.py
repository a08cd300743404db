from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from tests.support.together import at_once
from txnconsole.audit.chain import head, verify
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.recording import Actor, Change, record
from txnconsole.local.postgres import WRITER

WHO = Actor("ann", 7, "request-1")


@pytest.mark.django_db
def test_entries_are_numbered_without_gaps_and_chained() -> None:
    for number in range(3):
        record(Change(WHO, "x", f"object-{number}"))
    first, second, third = reversed(AuditEntry.objects.order_by("-sequence")[:3])
    assert (second.sequence, third.sequence) == (first.sequence + 1, first.sequence + 2)
    assert bytes(second.previous_hash) == bytes(first.hash)
    assert bytes(third.previous_hash) == bytes(second.hash)
    assert head() == (third.sequence, bytes(third.hash).hex())
    assert verify().fault is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "reason", ["", "ünï\u2028code", "a:b|c,d\n\r\t", "\0nul", "half \ud800", "x" * 10_000]
)
def test_the_chain_holds_whatever_is_written_in_it(reason: str) -> None:
    record(Change(Actor("o\0k"), "x", "y", reason, {"k": reason}))
    assert verify().fault is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entry SET reason = 'other'",
        "DELETE FROM audit_entry",
        "TRUNCATE audit_entry",
        "TRUNCATE audit_entry CASCADE",
    ],
)
def test_the_database_refuses_to_change_or_drop_an_entry(statement: str) -> None:
    record(Change(WHO, "x", "y"))
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


@pytest.mark.django_db
def test_the_login_of_processes_may_add_entries_and_has_no_right_to_more() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {WRITER.group}")
        record(Change(WHO, "x", "y"))
        for statement in (
            "UPDATE audit_entry SET reason = 'other'",
            "DELETE FROM audit_entry",
            "TRUNCATE audit_entry",
            "ALTER TABLE audit_entry DISABLE TRIGGER ALL",
            "DROP FUNCTION audit_entry_refuse() CASCADE",
            "CREATE OR REPLACE FUNCTION audit_entry_refuse() RETURNS trigger LANGUAGE sql AS ''",
            "SET LOCAL session_replication_role = replica",
        ):
            # The triggers' refusal has the same code, and other words.
            refused = pytest.raises(DatabaseError, match=r"permission denied|must be owner")
            with refused, transaction.atomic():
                cursor.execute(statement)
    assert AuditEntry.objects.get().object == "y"


@pytest.mark.django_db
def test_the_database_gives_number_time_and_hash_whatever_a_writer_claims() -> None:
    record(Change(WHO, "x", "y"))
    newest = AuditEntry.objects.order_by("-sequence")[0]
    AuditEntry.objects.create(
        sequence=1,
        at="2000-01-01T00:00:00Z",
        who="forger",
        action="x",
        object="y",
        reason="",
        before="{}",
        after="{}",
        result="done",
        request_id="",
        previous_hash=b"no",
        hash=b"no",
    )
    forged = AuditEntry.objects.get(who="forger")
    assert forged.sequence == newest.sequence + 1
    assert forged.at >= newest.at
    assert verify().fault is None


@pytest.mark.django_db
@pytest.mark.parametrize("claimed", [2**63 - 2, -7])
def test_no_table_that_a_writer_makes_passes_for_the_log(claimed: int) -> None:
    record(Change(WHO, "x", "y"))
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {WRITER.group}")
        cursor.execute("CREATE TEMPORARY TABLE audit_entry (LIKE public.audit_entry)")
        cursor.execute(
            "INSERT INTO pg_temp.audit_entry"
            " SELECT %s, now(), '', 0, '', '', '', '', '', '', '', '', 'made up'",
            [claimed],
        )
        cursor.execute(
            "INSERT INTO public.audit_entry"
            " (who, action, object, reason, before, after, result, request_id)"
            " VALUES ('forger', '', '', '', '', '', '', '')"
        )
        cursor.execute("DROP TABLE pg_temp.audit_entry")
        cursor.execute("RESET ROLE")
    assert [entry.sequence for entry in AuditEntry.objects.order_by("sequence")] == [1, 2]
    assert verify().fault is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("tampering", "where", "problem"),
    [
        ("UPDATE audit_entry SET reason = 'other' WHERE sequence = %s + 2", 2, "changed"),
        ("UPDATE audit_entry SET at = at + interval '1 us' WHERE sequence = %s + 2", 2, "changed"),
        ("UPDATE audit_entry SET token_id = NULL WHERE sequence = %s + 2", 2, "changed"),
        ("UPDATE audit_entry SET who = 'annx', action = '' WHERE sequence = %s + 2", 2, "changed"),
        ("DELETE FROM audit_entry WHERE sequence = %s + 2", 3, "missing"),
        (
            "UPDATE audit_entry SET previous_hash = 'x' WHERE sequence = %s + 2",
            2,
            "does not follow",
        ),
    ],
)
def test_tampering_by_the_databases_owner_is_found_where_it_was_done(
    tampering: str, where: int, problem: str
) -> None:
    start, _ = head()
    for number in range(4):
        record(Change(WHO, "x", f"object-{number}"))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_entry DISABLE TRIGGER USER")
        cursor.execute(tampering, [start])
        cursor.execute("ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_no_change")
    fault = verify().fault
    assert fault is not None
    assert fault.sequence == start + where
    assert problem in fault.problem


@pytest.mark.django_db
def test_an_entry_that_was_put_before_the_first_is_found() -> None:
    record(Change(WHO, "x", "y"))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_entry DISABLE TRIGGER USER")
        cursor.execute(
            "INSERT INTO audit_entry SELECT -1, at, who, token_id, action, object, reason, before,"
            " after, result, request_id, previous_hash, hash FROM audit_entry LIMIT 1"
        )
        cursor.execute("ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_no_change")
    fault = verify().fault
    assert fault is not None
    assert fault.sequence == -1


@pytest.mark.django_db(transaction=True)
def test_writers_at_the_same_time_leave_one_chain() -> None:
    start, _ = head()

    def write(_: int) -> None:
        for _ in range(10):
            record(Change(WHO, "x", "y"))

    at_once(4, write)
    assert head()[0] == start + 40
    assert verify().fault is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("time", ["once", "again"])
def test_what_a_test_has_committed_is_gone_for_the_next(time: str) -> None:
    assert not AuditEntry.objects.exists(), time
    record(Change(WHO, "x", "y"))
    assert AuditEntry.objects.get().sequence == 1
    with pytest.raises(DatabaseError, match="append-only"):
        AuditEntry.objects.all().delete()

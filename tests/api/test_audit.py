from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from tests.api.conftest import Caller
from txnconsole.audit import reading
from txnconsole.audit.chain import head
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.recording import Actor, Change, record


def test_the_audit_log_is_read_newest_first_page_by_page(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    opened = [program.open() for _ in range(5)]
    for txn_id in opened:
        program.post(f"/transactions/{txn_id}/abort", {"reason": f"reason of {txn_id}"})
    operator = as_role("operator")
    seen, cursor = [], ""
    while len(seen) < 5:
        page = operator.get(f"/audit?limit=2&who=program{cursor}").json
        seen += page["items"]
        cursor = f"&cursor={page['next_cursor']}"
    newest = [entry["object"] for entry in seen[:5]]
    assert newest == [f"transaction:{txn_id}" for txn_id in reversed(opened)]
    first = seen[4]
    assert first["reason"] == f"reason of {opened[0]}"
    assert (first["before"]["status"], first["after"]["status"]) == ("OPEN", "ABORTING")
    assert seen[0]["previous_hash"] == seen[1]["hash"]


def test_the_audit_log_is_filtered(program: Caller, as_role: Callable[..., Caller]) -> None:
    txn_id = program.open()
    program.post(f"/transactions/{txn_id}/commit")
    operator = as_role("operator")

    def newest(query: str) -> list[str]:
        return [each["object"] for each in operator.get(f"/audit?{query}").json["items"][:1]]

    assert newest("action=transaction.commit") == [f"transaction:{txn_id}"]
    assert newest(f"object=transaction:{txn_id}&who=program") == [f"transaction:{txn_id}"]
    assert newest("who=nobody") == []


def test_a_deadline_that_was_moved_is_in_the_audit_log(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    path = f"/transactions/{program.open(timeout_ms=1000)}"
    before = program.get(path).json["deadline"]
    after = program.post(f"{path}/extend", {"timeout_ms": 90_000}).json["deadline"]
    program.post(f"{path}/commit")
    assert program.post(f"{path}/extend", {"timeout_ms": 90_000}).status == 409
    entries = as_role("operator").get("/audit?action=transaction.extend").json["items"]
    assert [(each["who"], each["result"], each["after"]) for each in entries] == [
        ("program", "InvalidTxnStatus", {}),
        ("program", "done", {"timeout_ms": 90_000, "deadline": after}),
    ]
    assert before < after


def test_a_change_without_the_right_to_it_is_in_the_audit_log(
    topic: str, as_role: Callable[..., Caller]
) -> None:
    """Reading is not, nor are messages, which it does not tell of when they are allowed either."""
    viewer = as_role("viewer", user="val")
    limited = as_role("admin", topics="public/other/*", user="lim")
    path = f"/topics/{topic}"
    answers = [
        viewer.delete(path),
        limited.put(path, {"partitions": 2}),
        limited.put("/users/eve", {"roles": ["admin"]}),
        viewer.get("/audit"),
        viewer.post(f"{path}/partitions/0/messages", {"messages": [{"payload": "x"}]}),
        Caller().delete(path),
    ]
    assert [answer.status for answer in answers] == [403] * 5 + [401]
    entries = as_role("operator").get("/audit").json["items"]
    found = [
        (each["who"], each["action"], each["object"], each["result"])
        for each in entries
        if each["result"] != "done"
    ]
    assert found == [
        ("lim", "access.manage", "PUT /api/v1/users/eve", "PermissionDenied"),
        ("lim", "topic.change", f"PUT /api/v1{path}", "PermissionDenied"),
        ("val", "topic.change", f"DELETE /api/v1{path}", "PermissionDenied"),
    ]


@pytest.fixture
def operator(as_role: Callable[..., Caller]) -> Caller:
    return as_role("operator", user="olga")


def write(count: int, who: str = "ann", action: str = "x") -> list[int]:
    """Append entries; their numbers."""
    for number in range(count):
        record(Change(Actor(who), action, f"object-{number}"))
    newest = head()[0]
    return list(range(newest - count + 1, newest + 1))


def lines(content: bytes) -> list[Any]:
    return [json.loads(line) for line in content.splitlines()]


def times_of(numbers: list[int]) -> list[str]:
    found = AuditEntry.objects.filter(sequence__in=numbers).order_by("sequence")
    return [entry.at.isoformat().replace("+00:00", "Z") for entry in found]


def test_the_audit_log_is_filtered_by_time(operator: Caller) -> None:
    numbers = write(6)
    times = times_of(numbers)

    def found(query: str) -> list[int]:
        return [
            each["sequence"] for each in operator.get(f"/audit?limit=500&{query}").json["items"]
        ]

    assert found(f"after={times[2]}&before={times[4]}") == [numbers[3], numbers[2]]
    assert found(f"after={times[4]}") == [numbers[5], numbers[4]]
    assert found(f"before={times[1]}")[0] == numbers[0]
    assert found(f"after={times[3]}&before={times[1]}") == []
    assert found("after=2200-01-01T00:00:00Z") == []
    assert found("before=1999-01-01T00:00:00Z") == []
    paged = operator.get(f"/audit?limit=2&after={times[1]}").json
    rest = operator.get(f"/audit?limit=9&after={times[1]}&cursor={paged['next_cursor']}").json
    assert [each["sequence"] for each in paged["items"] + rest["items"]] == numbers[:0:-1]
    assert rest["next_cursor"] is None
    for wrong in ("yesterday", "2026-01-01T00:00:00", "5"):
        assert operator.get(f"/audit?after={wrong}").is_problem(400, "InvalidRequest")


def test_a_page_looks_at_a_bounded_number_of_entries_and_goes_on(
    operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SCAN_ENTRIES", 4)
    start = head()[0]
    write(1, who="rare")
    write(9)
    write(1, who="rare")
    seen: list[int] = []
    pages, cursor = 0, ""
    while start + 1 not in seen:
        page = operator.get(f"/audit?who=rare{cursor}").json
        seen += [each["sequence"] for each in page["items"]]
        cursor = f"&cursor={page['next_cursor']}"
        pages += 1
    assert seen == [start + 11, start + 1]
    assert pages == 3


def test_the_export_has_every_entry_in_order_a_line_each(
    operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "EXPORT_ENTRIES", 3)
    numbers = write(10)
    answer = operator.get("/audit/export")
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.headers["Audit-Head"] == str(numbers[-1])
    entries = lines(answer.content)
    assert [each["sequence"] for each in entries] == list(range(1, numbers[-1] + 1))
    by_hand = operator.get("/audit?limit=1&object=object-9").json["items"]
    assert entries[-1] == by_hand[0]
    times = times_of(numbers)
    part = operator.get(f"/audit/export?who=ann&after={times[2]}&before={times[7]}")
    assert [each["sequence"] for each in lines(part.content)] == numbers[2:7]
    assert lines(operator.get("/audit/export?who=nobody").content) == []
    assert operator.get("/audit/export?limit=5").is_problem(400, "InvalidRequest")


def test_the_export_holds_few_entries_at_a_time(
    operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "EXPORT_ENTRIES", 4)
    write(20)
    wanted = reading.AuditFilter()
    sizes = [len(page) for page in reading.in_order(wanted, reading.numbers_of(wanted))]
    assert max(sizes) == 4
    assert sum(sizes) == head()[0]


def test_the_log_is_verified_some_entries_a_call(operator: Caller) -> None:
    numbers = write(7)
    after, known, checked, complete = 0, "", 0, False
    while not complete:
        noted = f"&hash={known}" if known else ""
        step = operator.get(f"/audit/verify?limit=3&after_sequence={after}{noted}").json
        assert (step["valid"], step["fault"]) == (True, None)
        after, known, complete = step["sequence"], step["hash"], step["complete"]
        checked += step["entries"]
    assert checked == after == numbers[-1]
    assert (after, known) == head()


def test_a_log_that_was_cut_off_or_rewritten_is_found_by_what_was_noted(operator: Caller) -> None:
    newest, known = head()[0] + 3, ""
    write(3)
    known = head()[1]
    noted = f"/audit/verify?after_sequence={newest}&hash={known}"
    assert operator.get(noted).json["valid"]
    other = "0" * 64
    rewritten = operator.get(f"/audit/verify?after_sequence={newest}&hash={other}").json
    assert rewritten["fault"] == {"sequence": newest, "problem": "was changed"}
    cut = operator.get(f"/audit/verify?after_sequence={newest + 5}&hash={known}").json
    assert not cut["valid"]
    assert "missing" in cut["fault"]["problem"]


def test_a_hash_with_the_end_of_its_line_is_no_hash_and_no_fault_of_the_log(
    operator: Caller,
) -> None:
    write(1)
    newest, known = head()
    answer = operator.get(f"/audit/verify?after_sequence={newest}&hash={known}%0A")
    assert answer.is_problem(400, "InvalidRequest")
    assert [each["field"] for each in answer.json["errors"]] == ["hash"]


def test_a_hash_without_its_number_is_refused_and_not_passed_over(operator: Caller) -> None:
    """Whoever gives one wants to know whether the log still has that entry."""
    write(3)
    noted = head()[1]
    for query in (f"hash={noted}", f"hash={noted}&after_sequence=0"):
        answer = operator.get(f"/audit/verify?{query}")
        assert answer.is_problem(400, "InvalidRequest")
        assert [each["field"] for each in answer.json["errors"]] == ["hash"]
    with pytest.raises(CommandError, match="number of the entry"):
        call_command("verify_audit", "--hash", noted)


def test_a_forged_entry_is_found_by_the_call_and_by_the_command(operator: Caller) -> None:
    numbers = write(4)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_entry DISABLE TRIGGER USER")
        cursor.execute("UPDATE audit_entry SET reason = 'no' WHERE sequence = %s", [numbers[2]])
        cursor.execute("ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_no_change")
    found = operator.get("/audit/verify").json
    assert not found["valid"]
    assert found["fault"]["sequence"] == numbers[2]
    assert found["sequence"] == numbers[1]
    with pytest.raises(CommandError, match=f"Entry {numbers[2]} was changed"):
        call_command("verify_audit")


def test_the_commands_print_the_head_and_the_lines(operator: Caller) -> None:
    numbers = write(3)
    output = StringIO()
    call_command("verify_audit", stdout=output)
    assert output.getvalue().split() == [str(head()[0]), head()[1]]
    output = StringIO()
    call_command("export_audit", "--who", "ann", "--after", times_of(numbers)[1], stdout=output)
    printed = lines(output.getvalue().encode())
    assert [each["sequence"] for each in printed] == numbers[1:]
    with pytest.raises(CommandError, match="time zone"):
        call_command("export_audit", "--after", "2026-01-01T00:00:00")

from __future__ import annotations

import pytest

from txnconsole.audit import reading
from txnconsole.audit.reading import AuditFilter, EntryPage, newest
from txnconsole.audit.recording import Actor, Change, record

pytestmark = pytest.mark.django_db


def write(*who: str) -> None:
    """One entry each about transaction 3:1, 3:2, …; a name with a star came with a token."""
    for number, name in enumerate(who, 1):
        actor = Actor(name.rstrip("*"), token_id=7 if name.endswith("*") else None)
        record(Change(actor, "transaction.abort", f"transaction:3:{number}"))


def shown(page: EntryPage) -> list[str]:
    return [entry.who for entry in page.entries]


def test_pages_go_back_from_the_newest_without_gap() -> None:
    write("a", "b", "c", "d", "e")
    first = newest(AuditFilter(), below=None, limit=2)
    second = newest(AuditFilter(), below=first.below, limit=2)
    last = newest(AuditFilter(), below=second.below, limit=2)
    assert [shown(first), shown(second), shown(last)] == [["e", "d"], ["c", "b"], ["a"]]
    assert last.below is None


def test_what_programs_did_can_be_left_out_a_bounded_look_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "SCAN_ENTRIES", 3)
    write("person", "p*", "p*", "p*", "p*", "newest", "p*")
    seen: list[str] = []
    page = newest(AuditFilter(people=True), below=None, limit=9)
    pages = 1
    seen += shown(page)
    while page.below is not None:
        page = newest(AuditFilter(people=True), below=page.below, limit=9)
        seen += shown(page)
        pages += 1
    assert seen == ["newest", "person"]
    assert pages == 3


def test_an_empty_log_is_an_empty_page() -> None:
    assert newest(AuditFilter(people=True), below=None, limit=9) == EntryPage([], None)

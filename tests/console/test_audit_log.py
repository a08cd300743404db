from __future__ import annotations

import pytest

from txnconsole.audit import reading
from txnconsole.audit.reading import EntryPage
from txnconsole.audit.recording import Actor, Change, record
from txnconsole.console.audit_log import audit_page

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
    first = audit_page(before=None, about="", people=False, limit=2)
    second = audit_page(before=first.below, about="", people=False, limit=2)
    last = audit_page(before=second.below, about="", people=False, limit=2)
    assert [shown(first), shown(second), shown(last)] == [["e", "d"], ["c", "b"], ["a"]]
    assert last.below is None


@pytest.mark.parametrize("about", ["transaction:3:2", "3:2", "(844424930131968,2)"])
def test_an_object_is_found_in_any_spelling(about: str) -> None:
    write("a", "b", "c")
    assert shown(audit_page(before=None, about=about, people=False, limit=9)) == ["b"]


def test_what_programs_did_can_be_left_out_a_bounded_look_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "SCAN_ENTRIES", 3)
    write("person", "p*", "p*", "p*", "p*", "newest", "p*")
    seen: list[str] = []
    page = audit_page(before=None, about="", people=True, limit=9)
    pages = 1
    seen += shown(page)
    while page.below is not None:
        page = audit_page(before=page.below, about="", people=True, limit=9)
        seen += shown(page)
        pages += 1
    assert seen == ["newest", "person"]
    assert pages == 3


def test_an_empty_log_is_an_empty_page() -> None:
    assert audit_page(before=None, about="", people=True, limit=9) == EntryPage([], None)

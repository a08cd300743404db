"""The audit log as the console shows it, newest first, and as a file, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from django import forms

from engine.model.errors import InvalidRequest
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.reading import AuditFilter, EntryPage, in_order, newest, numbers_of
from txnconsole.console.inputs import TEXT
from txnconsole.console.spreadsheet import csv_lines, moment_text
from txnconsole.console.txn_id_forms import parse_txn_id

_COLUMNS = (
    *("sequence", "at", "who", "token_id", "action", "object", "reason", "before", "after"),
    *("result", "request_id", "source", "hash"),
)
_MOMENT = TEXT | {"placeholder": "2026-11-22 14:03"}


class AuditForm(forms.Form):
    """A filter of entries; every field may be left out. Times are in the reader's zone."""

    object = forms.CharField(
        required=False, widget=forms.TextInput(attrs=TEXT | {"placeholder": "3:1042"})
    )
    who = forms.CharField(required=False, widget=forms.TextInput(attrs=TEXT))
    action = forms.CharField(
        required=False, widget=forms.TextInput(attrs=TEXT | {"placeholder": "transaction.abort"})
    )
    since = forms.DateTimeField(required=False, widget=forms.TextInput(attrs=_MOMENT))
    until = forms.DateTimeField(required=False, widget=forms.TextInput(attrs=_MOMENT))
    people = forms.BooleanField(required=False)

    def wanted(self) -> AuditFilter:
        """What a valid form asks for."""
        data = self.cleaned_data
        return AuditFilter(
            who=data["who"] or None,
            action=data["action"] or None,
            object=_object(data["object"]) if data["object"] else None,
            after=data["since"],
            before=data["until"],
            people=data["people"],
        )


def audit_page(*, before: int | None, about: str, people: bool, limit: int) -> EntryPage:
    """Entries below the number ``before``, newest first.

    Args:
        about: the object of the entries, or empty for any; a transaction in any spelling of its
            id.
        people: leave out what was done with a token.
    """
    wanted = AuditFilter(object=_object(about) if about else None, people=people)
    return newest(wanted, below=before, limit=limit)


def exported(wanted: AuditFilter, form: str) -> Iterator[str]:
    """The entries as the lines of a file (``csv``, or ``json`` with one object a line), up to the
    entry that is the newest now; yielded a part at a time."""
    pages = (list(map(_facts, step)) for step in in_order(wanted, numbers_of(wanted)))
    if form == "csv":
        yield from csv_lines(_COLUMNS, ([list(each.values()) for each in page] for page in pages))
        return
    for page in pages:
        yield "".join(msgspec.json.encode(each).decode() + "\n" for each in page)


def _facts(entry: AuditEntry) -> Mapping[str, object]:
    facts = {name: getattr(entry, name) for name in _COLUMNS}
    return facts | {
        "at": moment_text(entry.at),
        "hash": bytes(entry.hash).hex(),
    }


def _object(about: str) -> str:
    """An object's name in the log: ``transaction:3:42``, ``topic:public/default/flights``, …"""
    try:
        return f"transaction:{parse_txn_id(about)}"
    except InvalidRequest:
        return about

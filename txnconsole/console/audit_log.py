"""The audit log as the console shows it, newest first, and as a file, oldest first."""

from __future__ import annotations

from collections.abc import Iterator

from django import forms

from txnconsole.audit.models import AuditEntry
from txnconsole.audit.reading import AuditFilter, in_order, numbers_of
from txnconsole.console.files import moment_text
from txnconsole.console.inputs import TEXT, MomentField
from txnconsole.console.object_links import object_named

COLUMNS = (
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
    since = MomentField(required=False, widget=forms.TextInput(attrs=_MOMENT))
    until = MomentField(required=False, widget=forms.TextInput(attrs=_MOMENT))
    people = forms.BooleanField(required=False)

    def wanted(self) -> AuditFilter:
        """What a valid form asks for."""
        data = self.cleaned_data
        return AuditFilter(
            who=data["who"] or None,
            action=data["action"] or None,
            object=object_named(data["object"]) if data["object"] else None,
            after=data["since"],
            before=data["until"],
            people=data["people"],
        )


def in_files(wanted: AuditFilter) -> Iterator[list[list[object]]]:
    """The entries as rows of a file's pages, up to the entry that is the newest now."""
    for step in in_order(wanted, numbers_of(wanted)):
        yield [[_value(entry, column) for column in COLUMNS] for entry in step]


def _value(entry: AuditEntry, column: str) -> object:
    if column == "at":
        return moment_text(entry.at)
    value: object = getattr(entry, column)
    return bytes(entry.hash).hex() if column == "hash" else value

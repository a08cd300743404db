"""What forms of several pages ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive

from engine.model.message import MAX_OFFSET

#: Attributes of any input, of those of names and patterns, and of those of whole numbers.
FIELD = {"class": "field"}
TEXT = FIELD | {"autocomplete": "off", "spellcheck": "false"}
NUMBER = {"class": "field short num", "inputmode": "numeric", "autocomplete": "off"}


class MomentField(forms.DateTimeField):
    """A moment, by the clock of the reader's zone or with an offset, without which a time that the
    clock shows twice says too little."""

    def to_python(self, value: Any) -> datetime | None:
        try:
            return super().to_python(value)
        except forms.ValidationError as error:
            if error.code != "ambiguous_timezone":
                raise
            raise forms.ValidationError(
                "The clock shows this time twice, or never. Add its offset, as in"
                " 2026-10-25 02:30+02:00."
            ) from error


def moment_of(text: str) -> datetime | None:
    """A moment with its zone in an address, which may be any text; None when it is none, or none
    that a database can compare with."""
    try:
        moment = parse_datetime(text)
        return None if moment is None or is_naive(moment) else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


class OffsetsForm(forms.Form):
    """From one offset to another."""

    start = forms.IntegerField(label="From offset", min_value=0, max_value=MAX_OFFSET)
    end = forms.IntegerField(label="To offset", min_value=0, max_value=MAX_OFFSET)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget = forms.TextInput(attrs=NUMBER)

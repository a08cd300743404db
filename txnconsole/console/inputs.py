"""What forms of several pages ask for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms

from engine.model.message import MAX_OFFSET

#: Attributes of inputs of names and patterns, and of whole numbers.
TEXT = {"class": "field", "autocomplete": "off", "spellcheck": "false"}
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


class OffsetsForm(forms.Form):
    """From one offset to another."""

    start = forms.IntegerField(label="From offset", min_value=0, max_value=MAX_OFFSET)
    end = forms.IntegerField(label="To offset", min_value=0, max_value=MAX_OFFSET)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget = forms.TextInput(attrs=NUMBER)

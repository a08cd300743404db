"""What forms of several pages ask for."""

from __future__ import annotations

from typing import Any

from django import forms

from engine.model.message import MAX_OFFSET

#: Attributes of inputs of names and patterns, and of whole numbers.
TEXT = {"class": "field", "autocomplete": "off", "spellcheck": "false"}
NUMBER = {"class": "field short num", "inputmode": "numeric", "autocomplete": "off"}


class OffsetsForm(forms.Form):
    """From one offset to another."""

    start = forms.IntegerField(label="From offset", min_value=0, max_value=MAX_OFFSET)
    end = forms.IntegerField(label="To offset", min_value=0, max_value=MAX_OFFSET)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget = forms.TextInput(attrs=NUMBER)

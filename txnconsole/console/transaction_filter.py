"""The filter of the transactions page, as it stands in the address."""

from __future__ import annotations

import re
from typing import Any

from django import forms

from engine.model.errors import InvalidRequest
from engine.model.topic_name import TopicName
from engine.model.transaction import TransactionFilter, TransactionOrder
from engine.model.txn_id import MAX_TC_ID
from engine.model.txn_status import TxnStatus

_AGE = re.compile(r"(\d{1,9})\s*(ms|s|m|min|h|d)?", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = forms.TextInput(attrs={"class": "field", "autocomplete": "off", "spellcheck": "false"})


class TransactionFilterForm(forms.Form):
    """Every field is optional; an empty form matches every transaction."""

    status = forms.MultipleChoiceField(
        required=False,
        choices=[(str(status), str(status).capitalize()) for status in TxnStatus],
        widget=forms.CheckboxSelectMultiple,
    )
    coordinator = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_TC_ID,
        widget=forms.NumberInput(attrs={"class": "field short"}),
    )
    owner = forms.CharField(required=False, max_length=150, widget=_TEXT)
    client = forms.CharField(required=False, max_length=200, widget=_TEXT)
    topic = forms.CharField(required=False, max_length=400, widget=_TEXT)
    older = forms.CharField(
        required=False,
        label="Older than",
        max_length=12,
        widget=forms.TextInput(
            attrs={"class": "field short", "placeholder": "90s, 5m, 2h", "autocomplete": "off"}
        ),
    )
    overdue = forms.BooleanField(required=False)
    sort = forms.ChoiceField(
        required=False,
        choices=[(str(order), f"{order.capitalize()} first") for order in TransactionOrder],
        widget=forms.Select(attrs={"class": "field"}),
    )

    def clean_topic(self) -> str:
        """Accept ``tenant/namespace/topic`` only."""
        text: str = self.cleaned_data["topic"].strip()
        if text:
            try:
                TopicName.parse(text)
            except InvalidRequest as error:
                raise forms.ValidationError(error.message) from error
        return text

    def clean_older(self) -> int | None:
        """Read ``90s``, ``5m``, ``2h`` or ``1d``; a bare number is seconds. In milliseconds."""
        text: str = self.cleaned_data["older"].strip().lower()
        if not text:
            return None
        found = _AGE.fullmatch(text)
        if found is None:
            raise forms.ValidationError("Write an age as 90s, 5m, 2h or 1d.")
        return int(found[1]) * _UNIT_MS[found[2] or "s"]

    @property
    def is_empty(self) -> bool:
        """Whether the filter lets every transaction through."""
        return self.is_valid() and self.filter() == TransactionFilter()

    def filter(self) -> TransactionFilter:
        """The engine's filter; the form must be valid."""
        data: dict[str, Any] = self.cleaned_data
        return TransactionFilter(
            statuses=tuple(TxnStatus(status) for status in data["status"]),
            tc_id=data["coordinator"],
            owner=data["owner"] or None,
            client=data["client"] or None,
            topic=data["topic"] or None,
            min_age_ms=data["older"],
            overdue=data["overdue"],
        )

    def order(self) -> TransactionOrder:
        """The engine's order; the form must be valid."""
        return TransactionOrder(self.cleaned_data["sort"] or TransactionOrder.NEWEST)

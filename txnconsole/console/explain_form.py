"""The question of the page that explains a message's visibility: which message, which reader."""

from __future__ import annotations

from typing import Any

from django import forms

from engine.model.errors import InvalidRequest
from engine.model.message import MAX_OFFSET, Isolation, MessageID
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from txnconsole.console.inputs import FIELD, TEXT


class ExplainForm(forms.Form):
    """Which message, and which reader."""

    partition = forms.CharField(
        label="Topic or partition",
        max_length=400,
        widget=forms.TextInput(attrs={**TEXT, "placeholder": "public/default/orders:0"}),
    )
    message = forms.CharField(
        label="Message id or offset",
        max_length=64,
        widget=forms.TextInput(attrs={**TEXT, "placeholder": "12:18546:0:0 or 18546"}),
    )
    subscription = forms.CharField(
        label="Subscription (optional)",
        max_length=256,
        required=False,
        widget=forms.TextInput(attrs=TEXT),
    )
    isolation = forms.ChoiceField(
        required=False,
        choices=[(each.value, each.value.upper()) for each in Isolation],
        widget=forms.Select(attrs=FIELD),
    )

    def clean(self) -> dict[str, Any]:
        """Find the partition and the offset in the text."""
        data = dict(self.cleaned_data)
        if "partition" not in data or "message" not in data:
            return data
        try:
            data |= _place(data["partition"].strip(), data["message"].replace(",", "").strip())
            name = data.get("subscription", "").strip()
            data["name"] = SubscriptionName(data["place"].topic, name) if name else None
        except InvalidRequest as error:
            raise forms.ValidationError(error.message) from error
        return data


def _place(where: str, message: str) -> dict[str, object]:
    """The partition and the offset that the fields topic (or partition) and message name."""
    if message.isascii() and message.isdigit():
        if int(message) > MAX_OFFSET:
            raise InvalidRequest(f"{message} is not an offset: no log is as long.", field="message")
        if ":" not in where:
            raise InvalidRequest(
                f"An offset needs its partition: write {where or 'topic'}:0.", field="where"
            )
        return {"place": PartitionName.parse(where), "offset": int(message)}
    message_id = MessageID.parse(message)
    topic = TopicName.parse(where.rpartition(":")[0] or where)
    place = PartitionName(topic, message_id.partition)
    if ":" in where and PartitionName.parse(where) != place:
        raise InvalidRequest(
            f"Message {message_id} is in partition {message_id.partition}, not in {where}.",
            field="where",
        )
    return {"place": place, "offset": message_id.offset}

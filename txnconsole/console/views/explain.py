"""Why can my consumer not see this message?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse
from django.views.decorators.http import require_GET

from engine.inspect.visibility import Explanation
from engine.model.errors import EngineError, InvalidRequest
from engine.model.message import MAX_OFFSET, Isolation, MessageID
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.explanation import in_words, verdict
from txnconsole.console.inputs import TEXT
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine


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
        widget=forms.Select(attrs={"class": "field"}),
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


@require_GET
@page(Permission.TOPIC_READ)
def explain(request: ConsoleRequest) -> HttpResponse:
    """The form, and below it the answer. The address holds the whole question."""
    asked = "message" in request.GET
    initial = {name: request.GET.get(name, "") for name in ("partition", "subscription")}
    form = ExplainForm(request.GET) if asked else ExplainForm(initial=initial)
    context: dict[str, Any] = {"form": form, "channel": "overview" if asked else None}
    if asked and form.is_valid():
        answer = region(lambda: _explained(form))
        context["answer"] = answer
        if answer.value is not None:
            given, sentence = verdict(answer.value)
            context |= {
                "given": given,
                "sentence": sentence,
                "reasons": in_words(answer.value),
            }
    invalid = asked and not form.is_valid()
    return show(
        request,
        "console/explain.html",
        context,
        region="console/partials/explain.html",
        status=400 if invalid else _status(context),
    )


def _status(context: dict[str, Any]) -> int:
    answer = context.get("answer")
    error: EngineError | None = answer.error if answer else None
    if error is None:
        return 200
    return 503 if error.retryable else 404


def _explained(form: ExplainForm) -> Explanation:
    data = form.cleaned_data
    return engine().inspect.explain(
        data["place"],
        data["offset"],
        Isolation(data["isolation"] or Isolation.READ_COMMITTED),
        data["name"],
    )


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

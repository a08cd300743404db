"""Creating and deleting topics."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from engine.log.topics import MAX_PARTITIONS
from engine.model.errors import InvalidRequest
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.inputs import FIELD, NUMBER, TEXT
from txnconsole.console.page import ConsoleRequest, actor_of, page
from txnconsole.console.reads import apart_from
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import topics as operations
from txnconsole.quantities import counted

_HOUR_MS = 3_600_000
_NAME = TEXT | {"class": "field mono"}
_INITIAL: dict[str, object] = {"topic": "public/default/", "partitions": 1, "deduplication": True}


class CreateForm(ReasonForm):
    """The settings that a topic's creator decides on."""

    topic = forms.CharField(
        max_length=400,
        label="Name",
        help_text="tenant/namespace/topic",
        widget=forms.TextInput(attrs=_NAME),
    )
    partitions = forms.IntegerField(
        min_value=1,
        max_value=MAX_PARTITIONS,
        help_text="It can grow later, and never shrink.",
        widget=forms.TextInput(attrs=NUMBER),
    )
    buffer = forms.ChoiceField(
        choices=[
            (BufferKind.MARKER.value, "marker: messages stand in the log at once"),
            (BufferKind.SIDECAR.value, "sidecar: messages of a transaction wait beside the log"),
        ],
        label="Buffer, for ever",
        widget=forms.Select(attrs=FIELD),
    )
    hours = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=10 * 365 * 24,
        label="Keep messages for hours",
        help_text="Empty: for ever.",
        widget=forms.TextInput(attrs=NUMBER),
    )
    deduplication = forms.BooleanField(required=False, label="Drop what a producer sends twice")

    def clean_topic(self) -> TopicName:
        """Accept only ``tenant/namespace/topic``."""
        try:
            return TopicName.parse(self.cleaned_data["topic"].strip())
        except InvalidRequest as error:
            raise forms.ValidationError(error.message) from error

    def settings(self) -> TopicSettings:
        """The engine's settings; the form must be valid."""
        data: dict[str, Any] = self.cleaned_data
        return TopicSettings(
            partitions=data["partitions"],
            buffer=BufferKind(data["buffer"]),
            retention_ms=data["hours"] and data["hours"] * _HOUR_MS,
            deduplication=data["deduplication"],
        )


class DeleteForm(ReasonForm):
    """The topic's name once more, because deleting cannot be undone."""

    name = forms.CharField(
        max_length=400,
        label="Write its name to confirm",
        widget=forms.TextInput(attrs=_NAME),
    )
    force = forms.BooleanField(
        required=False, label="Abort what transactions have in it; the rest of them goes on"
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.TOPIC_CHANGE)
def create(request: ConsoleRequest) -> HttpResponse:
    """Ask for a topic's name (``topic``: what it is likely to be) and settings; on POST, create
    it."""
    confirmation = Confirmation(
        title="Create a topic",
        effects=(),
        verb="Create topic",
        keep="Cancel",
        address=reverse("console:create-topic"),
        of="Topics",
        back=reverse("console:topics"),
    )
    actor = actor_of(request)

    def change(form: CreateForm) -> Outcome:
        name: TopicName = form.cleaned_data["topic"]
        reason = form.cleaned_data["reason"]
        operations.make(actor, name, form.settings(), reason)
        return Outcome(title=f"{name} is there", goes_to=reverse("console:topic", args=[name]))

    named = {"topic": request.GET["topic"]} if "topic" in request.GET else {}
    return ask(request, confirmation, CreateForm, change, initial=_INITIAL | named)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.TOPIC_CHANGE)
def delete(request: ConsoleRequest, topic: TopicName) -> HttpResponse:
    """Tell what is lost with a topic; on POST, delete it."""
    [summary] = engine().inspect.lists.topics([engine().topics.get(topic, fresh=True)])
    confirmation = Confirmation(
        title=f"Delete {topic}?",
        effects=[
            f"Its log goes, with {counted(summary.offsets, 'offset')}.",
            *(
                f"{broker} cannot be asked: {apart_from(why, broker)}"
                " What it has of the topic is not counted here."
                for broker, why in summary.unavailable.items()
            ),
            "Its subscriptions go, with all that they have acknowledged.",
            f"It has messages of {counted(summary.ongoing, 'open transaction')}."
            if summary.ongoing
            else "No open transaction has messages in it.",
            "There is no way back.",
        ],
        verb="Delete topic",
        keep="Keep it",
        address=reverse("console:delete-topic", args=[topic]),
        of=str(topic),
        back=reverse("console:topic", args=[topic]),
        harm=True,
    )
    actor = actor_of(request)

    def change(form: DeleteForm) -> Outcome:
        data = form.cleaned_data
        if data["name"].strip() != str(topic):
            raise InvalidRequest(f"The name to write is {topic}.", field="name")
        operations.delete(actor, topic, force=data["force"], reason=data["reason"])
        return Outcome(title=f"{topic} is deleted", goes_to=reverse("console:topics"))

    return ask(request, confirmation, DeleteForm, change)

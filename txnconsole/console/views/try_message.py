"""Producing a message by hand, to try a partition."""

from __future__ import annotations

from django import forms
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from engine.model.errors import InvalidRequest
from engine.model.message import NewMessage
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction
from txnconsole.access.roles import Permission
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.inputs import FIELD
from txnconsole.console.page import ConsoleRequest, actor_of, page
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import messages

_MAX_TEXT, _MAX_KEY = 10_000, 200


class MessageForm(ReasonForm):
    """One message as text, and how it is to be written."""

    key = forms.CharField(
        required=False,
        max_length=_MAX_KEY,
        strip=False,
        widget=forms.TextInput(attrs={"class": "field mono", "autocomplete": "off"}),
    )
    payload = forms.CharField(
        max_length=_MAX_TEXT,
        strip=False,
        widget=forms.Textarea(attrs={"class": "field mono", "rows": 4, "spellcheck": "false"}),
    )
    end = forms.ChoiceField(
        label="Written",
        choices=[
            ("", "outside transactions"),
            ("COMMIT", "in a transaction that commits at once"),
            ("ABORT", "in a transaction that aborts at once: nobody gets it"),
        ],
        required=False,
        widget=forms.Select(attrs=FIELD),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.MESSAGE_PRODUCE)
def send(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """Ask for a message and a reason; on POST, append it."""
    if topic.is_system:
        raise InvalidRequest(f"{topic} is the engine's own; it can only be read.", field="topic")
    if not request.principal.may_use(topic):
        raise InvalidRequest(f"Your role may not write to {topic}.", field="topic")
    partition = PartitionName(topic, number)
    status = engine().log.status(partition)
    effects = [
        "One message is appended; every subscription delivers it as any other.",
        "It cannot be taken back.",
    ]
    if status.blocker is not None and status.hidden_messages:
        effects.append(f"Readers get it once {status.blocker.txn_id} has ended, not before.")
    confirmation = Confirmation(
        title=f"Send a test message to {partition}?",
        effects=effects,
        verb="Send it",
        keep="Send nothing",
        address=reverse("console:test-message", args=[topic, number]),
        of=str(partition),
        back=reverse("console:log", args=[topic, number]),
    )

    def change(form: MessageForm) -> Outcome:
        data = form.cleaned_data
        message = NewMessage(payload=data["payload"].encode(), key=data["key"] or None)
        end = TxnAction(data["end"]) if data["end"] else None
        appended, txn_id = messages.send_test(
            actor_of(request), partition, message, end=end, reason=data["reason"]
        )
        aside = txn_id is not None and engine().log.buffer_of(partition) is BufferKind.SIDECAR
        place = "in the sidecar log until it has its place here" if aside else ""
        lines = [f"It stands at offset {appended.first_offset:,} {place}".strip() + "."]
        if txn_id is not None:
            lines.append(f"Its transaction {txn_id} is decided: {data['end'].lower()}.")
        return Outcome(title="The message is written", lines=lines)

    return ask(request, confirmation, MessageForm, change)

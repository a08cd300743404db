"""Asking before a change: its effect is shown, a reason is required, and the outcome is reported.

The same form is in a dialog or, without JavaScript, on a page of its own. After a refusal the form
stays and says why: with 422 for wrong input, with 409 or 503 for an error of the engine. These
statuses mean that the answer is the form; with any other, such as the 403 of somebody who may not
do this any more, the form in the dialog stays as it is (``hx-status`` in dialog_form.html).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from django import forms
from django.http import HttpResponse

from engine.model.errors import EngineError, InvalidRequest
from txnconsole.console.inputs import FIELD
from txnconsole.console.page import ConsoleRequest, go, show
from txnconsole.console.shown_once import show_once

MIN_REASON = 8
_NO_NAMES: Mapping[str, str] = {}
#: What stands in the field of a reason while it is empty.
KEPT = "Kept in the audit log with your name"
TOO_SHORT = f"Give a reason of at least {MIN_REASON} characters."


class ReasonForm(forms.Form):
    """The reason for a change, which the audit log keeps. Subclasses add other fields."""

    reason = forms.CharField(
        min_length=MIN_REASON,
        max_length=500,
        error_messages={"required": TOO_SHORT, "min_length": TOO_SHORT},
        widget=forms.Textarea(attrs=FIELD | {"rows": 3, "placeholder": KEPT}),
    )

    def order_fields(self, field_order: Iterable[str] | None) -> None:
        """The reason is asked last, whatever a subclass adds."""
        super().order_fields(field_order or [name for name in self.fields if name != "reason"])


F = TypeVar("F", bound=ReasonForm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A change that is to be confirmed. ``effects``: a sentence for each thing it would do.
    ``address`` is where the form is sent; ``of`` is the name of its object, ``back`` the address of
    that one's page; ``harm``: it cannot be undone."""

    title: str
    effects: Sequence[str]
    verb: str
    keep: str
    address: str
    of: str
    back: str
    harm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a change has done. ``goes_to``: where the browser goes next, when the object is not at
    the address any more; ``told``: a secret that the page there shows once."""

    title: str
    lines: Sequence[str] = ()
    goes_to: str | None = None
    told: Mapping[str, str] = field(default_factory=dict)


def ask(
    request: ConsoleRequest,
    confirmation: Confirmation,
    form_class: Callable[..., F],
    change: Callable[[F], Outcome],
    *,
    initial: Mapping[str, object] | None = None,
) -> HttpResponse:
    """Show what a change would do; on POST, make it and report what it has done."""
    if request.method != "POST":
        return _show(request, confirmation, form_class(initial=initial))
    form = form_class(request.POST)
    if not form.is_valid():
        return _show(request, confirmation, form, status=422)
    try:
        outcome = change(form)
    except EngineError as error:
        tell_refusal(form, error)
        return _show(request, confirmation, form, status=503 if error.retryable else 409)
    if outcome.goes_to is not None:
        if outcome.told:
            return show_once(request, outcome.goes_to, outcome.told)
        return go(request, outcome.goes_to, f"{outcome.title}.")
    response = show(
        request,
        "console/done.html",
        {"outcome": outcome, "confirmation": confirmation},
        region="console/partials/done.html",
    )
    response["HX-Trigger"] = "changed"
    return response


def tell_refusal(
    form: forms.Form,
    error: EngineError,
    *,
    names: Mapping[str, str] = _NO_NAMES,
    sentence: str = "{}",
) -> None:
    """Say why a change was refused beside the fields that the error names, or for the whole form.

    Args:
        names: the form's names of fields that the error calls otherwise.
        sentence: what is made of what is wrong with a field.
    """
    wrong = error.wrong if isinstance(error, InvalidRequest) else {}
    beside = ((names.get(field, field), text) for field, text in wrong.items())
    told = [(name, text) for name, text in beside if name in form.fields]
    for name, text in told:
        form.add_error(name, sentence.format(text))
    if not told:
        form.add_error(None, error.message)


def _show(
    request: ConsoleRequest, confirmation: Confirmation, form: forms.Form, *, status: int = 200
) -> HttpResponse:
    return show(
        request,
        "console/confirm.html",
        {"confirmation": confirmation, "form": form},
        region="console/partials/confirm_form.html",
        status=status,
    )

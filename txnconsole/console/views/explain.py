"""Why can my consumer not see this message?"""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.inspect.visibility import Explanation
from engine.model.message import Isolation
from txnconsole.access.roles import Permission
from txnconsole.console.explain_form import ExplainForm
from txnconsole.console.explanation import in_words, verdict
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine
from txnconsole.statuses import status_of_code


@require_safe
@page(Permission.TOPIC_READ)
def explain(request: ConsoleRequest) -> HttpResponse:
    """The form, and below it the answer. The address holds the whole question."""
    asked = "message" in request.GET
    initial = {name: request.GET.get(name, "") for name in ("partition", "subscription")}
    form = ExplainForm(request.GET) if asked else ExplainForm(initial=initial)
    context: dict[str, Any] = {"form": form, "channel": "overview" if asked else None}
    status = 200 if form.is_valid() or not asked else 400
    if asked and form.is_valid():
        answer = region(lambda: _explained(form))
        context["answer"] = answer
        if answer.error is not None:
            status = status_of_code(answer.error.code)
        if answer.value is not None:
            given, sentence = verdict(answer.value)
            context |= {
                "given": given,
                "sentence": sentence,
                "reasons": in_words(answer.value),
            }
    return show(
        request,
        "console/explain.html",
        context,
        region="console/partials/explain.html",
        status=status,
    )


def _explained(form: ExplainForm) -> Explanation:
    data = form.cleaned_data
    return engine().inspect.explain(
        data["place"],
        data["offset"],
        Isolation(data["isolation"] or Isolation.READ_COMMITTED),
        data["name"],
    )

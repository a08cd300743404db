"""Masking rules: what viewers do not see of messages. Everybody may read them."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from engine.model.errors import InvalidRequest
from txnconsole.access.masking import Effect, Part
from txnconsole.access.masking_rules import (
    add_masking_rule,
    delete_masking_rule,
    find_masking_rule,
)
from txnconsole.access.models import MaskingRule
from txnconsole.access.roles import Permission
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.page import ConsoleRequest, actor_of, forbidden, go, page
from txnconsole.console.settings_forms import MaskingForm
from txnconsole.console.views.settings import settings_page


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.OPERATION_READ)
def masking(request: ConsoleRequest) -> HttpResponse:
    """The rules; on POST, add one."""
    manages = request.principal.may(Permission.ACCESS_MANAGE)
    form = MaskingForm(request.POST or None)
    if request.method == "POST":
        if not manages:
            return forbidden(request, Permission.ACCESS_MANAGE)
        if form.is_valid() and _added(request, form):
            return go(request, reverse("console:settings-masking"), "The rule is added.")
    context = {
        "form": form,
        "manages": manages,
        "rules": MaskingRule.objects.order_by("topics", "id"),
        "open_topics": settings.VIEWER_PAYLOADS,
    }
    return settings_page(
        request,
        "console/settings/masking.html",
        "settings-masking",
        context,
        status=422 if form.errors else 200,
    )


def _added(request: ConsoleRequest, form: MaskingForm) -> bool:
    data = form.cleaned_data
    try:
        add_masking_rule(
            actor_of(request),
            topics=data["topics"].strip(),
            part=Part(data["part"]),
            name=data["name"].strip(),
            effect=Effect(data["effect"]),
        )
    except InvalidRequest as error:
        form.add_error("name", error.message)
        return False
    return True


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ACCESS_MANAGE)
def delete(request: ConsoleRequest, rule_id: int) -> HttpResponse:
    """Delete a rule."""
    rule = find_masking_rule(rule_id)
    confirmation = Confirmation(
        title="Delete the masking rule?",
        effects=[f"Viewers see again what it hides: {rule}."],
        verb="Delete rule",
        keep="Keep it",
        address=reverse("console:settings-masking-delete", args=[rule_id]),
        of="Masking",
        back=reverse("console:settings-masking"),
        harm=True,
    )

    def change(form: ReasonForm) -> Outcome:
        delete_masking_rule(actor_of(request), rule_id, form.cleaned_data["reason"])
        return Outcome(title="The rule is deleted", goes_to=confirmation.back)

    return ask(request, confirmation, ReasonForm, change)

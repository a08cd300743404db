"""Tokens: the user's own, and for administrators everybody's."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from engine.model.errors import EngineError
from txnconsole.access.errors import UserNotFound
from txnconsole.access.roles import Permission, Role
from txnconsole.access.token_changes import create_token, grantable, revoke_token
from txnconsole.access.tokens import find_token, list_tokens
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask, tell_refusal
from txnconsole.console.numbers import number_of
from txnconsole.console.page import (
    ConsoleRequest,
    actor_of,
    asked_by_script,
    asked_on,
    forbidden,
    page,
)
from txnconsole.console.settings_forms import TokenForm
from txnconsole.console.shown_once import show_once, shown
from txnconsole.console.slices import page_of
from txnconsole.console.views.settings import settings_page

PAGE_ROWS = 50


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.TOKEN_OWN)
def tokens(request: ConsoleRequest) -> HttpResponse:
    """The tokens in use, or all, newest first; on POST, make one, whose secret this page shows
    once."""
    manages = request.principal.may(Permission.ACCESS_MANAGE)
    roles = grantable(request.principal)
    form = TokenForm(request.POST or None, grantable=roles, for_others=manages)
    if request.method == "POST" and form.is_valid():
        try:
            token, secret = _create(request, form)
        except UserNotFound as error:
            form.add_error("user", error.message)
        except EngineError as error:
            tell_refusal(form, error)
        else:
            told = {"title": f"Token {token.pk} of {token.user}", "secret": secret}
            return show_once(request, reverse("console:settings-tokens"), told)
    user = request.GET.get("user", "").strip() if manages else request.principal.name
    below = number_of(request.GET.get("before", ""))
    ended = request.GET.get("ended") == "1"
    tokens = list_tokens(user or None, ended=ended)
    if below is not None:
        tokens = tokens.filter(pk__lt=below)
    found, last = page_of(tokens, PAGE_ROWS)
    context = {
        "form": form,
        "manages": manages,
        "tokens": found,
        "before": last.pk if last else None,
        "first": below is None,
        "ended": ended,
        "user_filter": user if manages else "",
    }
    return shown(
        request,
        lambda told: settings_page(
            request,
            "console/settings/tokens.html",
            "settings-tokens",
            context | {"told": told},
            status=422 if form.errors else 200,
        ),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.TOKEN_OWN)
def revoke(request: ConsoleRequest, token_id: int) -> HttpResponse:
    """End a token: one's own, or as an administrator anybody's."""
    manages = request.principal.may(Permission.ACCESS_MANAGE)
    owner = None if manages else request.principal.name
    token = find_token(token_id)
    name = token.user.get_username()
    if owner not in (None, name):
        return forbidden(request, Permission.ACCESS_MANAGE)
    confirmation = Confirmation(
        title=f"Revoke token {token_id} of {name}?",
        effects=[
            f"Programs that use {token.hint}… are refused within two seconds.",
            "Their open transactions stay open until they time out or are aborted.",
            "It cannot be undone; make another token instead.",
        ],
        verb="Revoke token",
        keep="Keep it",
        address=reverse("console:settings-token-revoke", args=[token_id]),
        of="Tokens",
        back=reverse("console:settings-tokens"),
        harm=True,
    )

    def change(form: ReasonForm) -> Outcome:
        reason = form.cleaned_data["reason"]
        revoke_token(actor_of(request), token_id, reason=reason, owner=owner)
        back = confirmation.back
        goes_to = asked_on(request, back) if asked_by_script(request) else back
        return Outcome(title=f"Token {token_id} is revoked", goes_to=goes_to)

    return ask(request, confirmation, ReasonForm, change)


def _create(request: ConsoleRequest, form: TokenForm) -> tuple[Any, str]:
    data = form.cleaned_data
    user = data.get("user") or request.principal.name
    return create_token(
        actor_of(request),
        user,
        [Role(role) for role in data["roles"]],
        topics=data["topics"],
        lifetime=form.lifetime,
        own=user == request.principal.name,
    )

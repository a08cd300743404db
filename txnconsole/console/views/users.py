"""Users, their roles, and what the roles allow; for administrators."""

from __future__ import annotations

import secrets

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from engine.model.errors import EngineError, InvalidRequest
from txnconsole.access.roles import GRANTS, Permission, Role
from txnconsole.access.tokens import list_tokens
from txnconsole.access.user_changes import change_user
from txnconsole.access.users import (
    UserSettings,
    find_user,
    list_users,
    members,
    roles_of,
    user_name,
)
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.page import ConsoleRequest, actor_of, page
from txnconsole.console.settings_forms import NewUserForm, RolesForm
from txnconsole.console.shown_once import show_once, shown
from txnconsole.console.views.settings import settings_page
from txnconsole.quantities import counted

PAGE_ROWS = 50
_PASSWORD_BYTES = 12
_TOKENS = 20


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ACCESS_MANAGE)
def users(request: ConsoleRequest) -> HttpResponse:
    """Users by name, a form for a new one, and the roles; on POST, make one and go to its page."""
    form = NewUserForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            return _created(request, form)
        except EngineError as error:
            form.add_error("name", error.message)
    found = list_users(above=request.GET.get("after", ""), limit=PAGE_ROWS + 1)
    listed = found[:PAGE_ROWS]
    counts = members()
    context = {
        "form": form,
        "users": [(user, sorted(roles_of(user))) for user in listed],
        "after": listed[-1].get_username() if len(found) > PAGE_ROWS else None,
        "first": "after" not in request.GET,
        "roles": [(role, counts.get(role, 0), sorted(GRANTS[role])) for role in Role],
    }
    return settings_page(
        request,
        "console/settings/users.html",
        "settings-users",
        context,
        status=422 if form.errors else 200,
    )


@require_safe
@page(Permission.ACCESS_MANAGE)
def user(request: ConsoleRequest, name: str) -> HttpResponse:
    """One user: roles, whether it is active, and its tokens in use; a new password, once."""
    found = find_user(user_name(name))
    context = {
        "user_shown": found,
        "roles": sorted(roles_of(found)),
        "tokens": list_tokens(name, ended=False)[:_TOKENS],
        "is_self": name == request.principal.name,
    }
    return shown(
        request,
        lambda told: settings_page(
            request, "console/settings/user.html", "settings-users", context | {"told": told}
        ),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ACCESS_MANAGE)
def roles(request: ConsoleRequest, name: str) -> HttpResponse:
    """Give and take roles."""
    found = find_user(user_name(name))
    tokens = sum(token.state == "valid" for token in list_tokens(name, ended=False)[:100])
    effects = ["It holds at once; a page that is open is told nothing new after a minute."]
    if tokens:
        effects.append(
            "Tokens keep the roles that they have, unless they are revoked with it: it has"
            f" {counted(tokens, 'valid token')}."
        )

    def change(form: RolesForm) -> Outcome:
        chosen = frozenset(Role(role) for role in form.cleaned_data["roles"])
        try:
            _put(
                request,
                name,
                UserSettings(roles=chosen),
                form,
                revoke_tokens=form.cleaned_data["revoke_tokens"],
                before=frozenset(map(Role, form.cleaned_data["before"])),
            )
        except InvalidRequest:
            form.take_for_seen(roles_of(find_user(name)))
            raise
        return Outcome(title=f"{name} has other roles now", goes_to=_address(name))

    return ask(
        request,
        _confirmation(found, "roles", f"Change the roles of {name}", effects, "Change roles"),
        RolesForm,
        change,
        initial={"roles": sorted(roles_of(found)), "before": sorted(roles_of(found))},
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ACCESS_MANAGE)
def admit(request: ConsoleRequest, name: str, *, active: bool) -> HttpResponse:
    """Enable a user again, or disable it; once more it changes nothing."""
    found = find_user(user_name(name))
    if active:
        effects = ["It can sign in.", "Its tokens that were not revoked hold again."]
        asked = _confirmation(found, "activate", f"Let {name} in again?", effects, "Activate")
    else:
        effects = [
            "It is signed out, and all its tokens are refused within two seconds.",
            "Its transactions and its entries in the audit log stay.",
        ]
        asked = _confirmation(found, "disable", f"Disable {name}?", effects, "Disable", harm=True)

    def change(form: ReasonForm) -> Outcome:
        _put(request, name, UserSettings(active=active), form)
        title = f"{name} may sign in again" if active else f"{name} is disabled"
        return Outcome(title=title, goes_to=_address(name))

    return ask(request, asked, ReasonForm, change)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ACCESS_MANAGE)
def password(request: ConsoleRequest, name: str) -> HttpResponse:
    """Make a new password for a user; it is shown once."""
    found = find_user(user_name(name))
    effects = [
        "A new password is made, and shown once.",
        "Its sessions with the old one end.",
    ]

    def change(form: ReasonForm) -> Outcome:
        made = secrets.token_urlsafe(_PASSWORD_BYTES)
        _put(request, name, UserSettings(password=made), form)
        told = _password_told(name, made)
        return Outcome(title=told["title"], goes_to=_address(name), told=told)

    confirmation = _confirmation(
        found, "password", f"Make a new password for {name}?", effects, "Make a password"
    )
    return ask(request, confirmation, ReasonForm, change)


def _created(request: ConsoleRequest, form: NewUserForm) -> HttpResponse:
    """Make a user, with a password when it is a person.

    Raises:
        InvalidRequest: the name is taken.
    """
    data = form.cleaned_data
    made = secrets.token_urlsafe(_PASSWORD_BYTES) if data["person"] else None
    settings = UserSettings(
        roles=frozenset(Role(role) for role in data["roles"]), active=True, password=made
    )
    name = data["name"]
    change_user(actor_of(request), request.principal, name, settings, new=True)
    return show_once(request, _address(name), _password_told(name, made) if made else {})


def _password_told(name: str, password: str) -> dict[str, str]:
    return {"title": f"The new password of {name}", "secret": password}


def _put(
    request: ConsoleRequest,
    name: str,
    settings: UserSettings,
    form: ReasonForm,
    *,
    revoke_tokens: bool = False,
    before: frozenset[Role] | None = None,
) -> None:
    change_user(
        actor_of(request),
        request.principal,
        name,
        settings,
        reason=form.cleaned_data["reason"],
        revoke_tokens=revoke_tokens,
        before=before,
    )


def _address(name: str) -> str:
    return reverse("console:settings-user", args=[name])


def _confirmation(
    found: User, what: str, title: str, effects: list[str], verb: str, *, harm: bool = False
) -> Confirmation:
    name = found.get_username()
    return Confirmation(
        title=title,
        effects=effects,
        verb=verb,
        keep="Leave it",
        address=reverse(f"console:settings-user-{what}", args=[name]),
        of=name,
        back=_address(name),
        harm=harm,
    )

"""The settings: the user's preferences, and the limits in effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from txnconsole.access.roles import Permission
from txnconsole.console.effective_limits import limits, retention
from txnconsole.console.page import ConsoleRequest, go, page, show
from txnconsole.console.settings_forms import PreferencesForm
from txnconsole.preferences.models import Pace, Preferences, Theme

#: Title, address name, permission.
TABS = (
    ("Profile", "settings-profile", Permission.SELF_READ),
    ("Tokens", "settings-tokens", Permission.TOKEN_OWN),
    ("Users", "settings-users", Permission.ACCESS_MANAGE),
    ("Masking", "settings-masking", Permission.OPERATION_READ),
    ("Limits and retention", "settings-limits", Permission.OPERATION_READ),
)


def settings_page(
    request: ConsoleRequest, template: str, tab: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """A page of the settings, with the tabs that the user may open."""
    tabs = [
        (title, reverse(f"console:{name}"), name == tab)
        for title, name, permission in TABS
        if request.principal.may(permission)
    ]
    return show(request, template, context | {"tabs": tabs}, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.SELF_READ)
def profile(request: ConsoleRequest) -> HttpResponse:
    """Who the user is, and their theme, density, time zone and refresh interval, which are
    stored."""
    chosen = request.preferences
    kept = {name: getattr(chosen, name) for name in PreferencesForm.base_fields}
    form = PreferencesForm(request.POST or None, initial=kept)
    if request.method == "POST" and form.is_valid():
        Preferences.objects.update_or_create(user_id=request.user_id, defaults=form.cleaned_data)
        done = "Saved. Your settings hold on every browser that you sign in with."
        return go(request, reverse("console:settings-profile"), done)
    context = {
        "form": form,
        "permissions": sorted(request.principal.permissions),
    }
    status = 422 if form.errors else 200
    return settings_page(
        request, "console/settings/profile.html", "settings-profile", context, status=status
    )


@require_POST
@page(Permission.SELF_READ)
def theme(request: ConsoleRequest) -> HttpResponse:
    """Store the theme that the button in the top bar has switched to."""
    return _store(request, "theme", Theme.values)


@require_POST
@page(Permission.SELF_READ)
def pace(request: ConsoleRequest) -> HttpResponse:
    """Store the refresh interval that was chosen in the top bar."""
    return _store(request, "pace", map(str, Pace.values))


def _store(request: ConsoleRequest, name: str, values: Iterable[str]) -> HttpResponse:
    chosen = request.POST.get(name, "")
    if chosen not in values:
        return HttpResponse(f"No such {name}.", status=400)
    Preferences.objects.update_or_create(user_id=request.user_id, defaults={name: chosen})
    return HttpResponse(status=204)


@require_safe
@page(Permission.OPERATION_READ)
def effective(request: ConsoleRequest) -> HttpResponse:
    """Limits and retention times in effect, and what sets them."""
    context = {"limits": limits(), "retention": retention()}
    return settings_page(request, "console/settings/limits.html", "settings-limits", context)

"""What every page shares: who asks, what they may, and what is said when the engine refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.gzip import gzip_page

from engine.model.errors import (
    CoordinatorNotFound,
    EngineError,
    InvalidRequest,
    MessageNotFound,
    PartitionNotFound,
    SubscriptionNotFound,
    TopicNotFound,
    TransactionNotFound,
)
from txnconsole.access.principal import Principal, principal_of
from txnconsole.access.roles import Permission
from txnconsole.alerts.errors import (
    AlertChannelNotFound,
    AlertMessageNotFound,
    AlertNotFound,
    AlertRuleNotFound,
    AlertSilenceNotFound,
)
from txnconsole.jobs.errors import JobNotFound
from txnconsole.preferences.models import Preferences, preferences_of
from txnconsole.runs.errors import RunNotFound

P = ParamSpec("P")

_NOT_FOUND = (
    AlertChannelNotFound,
    AlertMessageNotFound,
    AlertNotFound,
    AlertRuleNotFound,
    AlertSilenceNotFound,
    RunNotFound,
    CoordinatorNotFound,
    JobNotFound,
    MessageNotFound,
    PartitionNotFound,
    SubscriptionNotFound,
    TopicNotFound,
    TransactionNotFound,
)


class ConsoleRequest(HttpRequest):
    """A request whose sender is known; what :func:`page` hands to a view."""

    principal: Principal
    preferences: Preferences


View = Callable[Concatenate[ConsoleRequest, P], HttpResponse]


def page(permission: Permission) -> Callable[[View[P]], Callable[..., HttpResponse]]:
    """Let in who holds the permission; turn the engine's errors into pages.

    Anonymous requests go to the login, except those of a page's own script, which get a 401 that
    the script understands.
    """

    def decorate(view: View[P]) -> Callable[..., HttpResponse]:
        @gzip_page
        @wraps(view)
        def wrapped(request: ConsoleRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            user = request.user
            principal = principal_of(user)
            if principal is None or user.pk is None:
                return _to_login(request)
            request.principal = principal
            request.preferences = preferences_of(user.pk)
            if not principal.may(permission):
                return forbidden(request, permission)
            with timezone.override(request.preferences.zone_info):
                try:
                    return view(request, *args, **kwargs)
                except EngineError as error:
                    return failed(request, error)

        return wrapped

    return decorate


def show(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    region: str | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render a page, or only its live region when the page's own script asks for that."""
    only_region = region is not None and "HX-Request" in request.headers
    response = render(
        request, region if only_region and region else template, dict(context), status=status
    )
    patch_vary_headers(response, ["HX-Request"])
    return response


def forbidden(request: HttpRequest, permission: Permission) -> HttpResponse:
    """The page that names the missing permission."""
    return render(request, "403.html", {"permission": permission}, status=403)


def failed(request: HttpRequest, error: EngineError) -> HttpResponse:
    """The page for a refusal or failure of the engine that concerns the whole page."""
    if isinstance(error, _NOT_FOUND):
        status = 404
    elif isinstance(error, InvalidRequest):
        status = 400
    else:
        status = 503 if error.retryable else 409
    template = "404.html" if status == 404 else "console/failed.html"
    context = {"error": error, "text": sought(request) if status == HTTPStatus.NOT_FOUND else ""}
    return render(request, template, context, status=status)


def sought(request: HttpRequest) -> str:
    """What an address that leads nowhere was about, for the search box of its page."""
    return "/".join(request.path.strip("/").split("/")[1:])[:200]


def _to_login(request: HttpRequest) -> HttpResponse:
    if "HX-Request" in request.headers or request.headers.get("Accept") == "application/json":
        return HttpResponse("Signed out. Reload the page to sign in.", status=401)
    address = urlsplit(request.get_full_path())
    return redirect_to_login(address.path + (f"?{address.query}" if address.query else ""))

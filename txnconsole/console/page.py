"""What every page shares: who asks, what they may do, and the answers to the engine's errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from http import HTTPStatus
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlencode, urlsplit

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.gzip import gzip_page

from engine.model.errors import EngineError, InvalidRequest, TimeLimitExceeded
from engine.postgres import absences, deadlines
from txnconsole.access.principal import Principal, principal_of
from txnconsole.access.refusal_log import record_refusal
from txnconsole.access.roles import Permission
from txnconsole.alerts.reading import Standing, standing
from txnconsole.audit.recording import Actor
from txnconsole.preferences.models import Preferences, preferences_of
from txnconsole.request_log import request_id_of
from txnconsole.statuses import status_of_code

P = ParamSpec("P")


class ConsoleRequest(HttpRequest):
    """A request whose sender is known; what :func:`page` gives to a view."""

    principal: Principal
    user_id: int
    preferences: Preferences
    #: How the alerts stand, and what time it is: read at most once for the view and its frame.
    standing: Callable[[], Standing]


View = Callable[Concatenate[ConsoleRequest, P], HttpResponseBase]


def page(permission: Permission) -> Callable[[View[P]], Callable[..., HttpResponseBase]]:
    """Let in whoever holds the permission, and turn the engine's errors into pages.

    Anonymous requests are sent to the login page, and from there back to the page that they are for
    or, forms, that they were made on. Those of a page's own script get a 401 instead, which the
    script understands. The answer is for its sender only: shared caches must not keep it.
    """

    def decorate(view: View[P]) -> Callable[..., HttpResponseBase]:
        @gzip_page
        @_for_its_sender
        @wraps(view)
        def wrapped(request: ConsoleRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            user = request.user
            try:
                principal = principal_of(user)
            except TimeLimitExceeded as error:  # Over before it is known who asks.
                return failed(request, error)
            if principal is None or user.pk is None:
                return _to_login(request)
            request.principal, request.user_id = principal, user.pk
            request.preferences = preferences_of(user)
            request.standing = cache(standing)
            if not principal.may(permission):
                return forbidden(request, permission)
            with timezone.override(request.preferences.zone_info), absences.remembered():
                try:
                    if "%00" in request.META["QUERY_STRING"]:  # No database can look for it.
                        raise InvalidRequest(
                            "The address has a null character in it.", field="address"
                        )
                    return view(request, *args, **kwargs)
                except EngineError as error:
                    return failed(request, error)

        return wrapped

    return decorate


def _for_its_sender(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    @wraps(view)
    def wrapped(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(*args, **kwargs)
        response.headers.setdefault("Cache-Control", "private, no-cache")
        return response

    return wrapped


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
    name = region if only_region and region else template
    response = _rendered(request, name, context, status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def actor_of(request: ConsoleRequest) -> Actor:
    """The signed-in user, as the audit log names them."""
    return _actor(request, request.principal)


def forbidden(request: HttpRequest, permission: Permission) -> HttpResponse:
    """The page that names the missing permission; an attempt to change something is recorded."""
    principal = principal_of(request.user)
    if principal is not None:
        record_refusal(
            _actor(request, principal),
            permission,
            method=request.method or "",
            path=request.path,
        )
    if asked_by_script(request):
        return refused(request, 403, "Forbidden", f"This needs the permission {permission}.")
    return _rendered(request, "403.html", {"permission": permission}, status=403)


def failed(request: HttpRequest, error: EngineError) -> HttpResponse:
    """The page for an error of the engine that concerns the whole page."""
    status = status_of_code(error.code)
    if asked_by_script(request):
        return refused(request, status, error.code, error.message, retryable=error.retryable)
    template = "404.html" if status == HTTPStatus.NOT_FOUND else "console/failed.html"
    context = {"error": error, "sought": sought(request) if status == HTTPStatus.NOT_FOUND else ""}
    return _rendered(request, template, context, status=status)


def _rendered(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int
) -> HttpResponse:
    """Render, even when the request's deadline has passed: a broker that does not answer may have
    used up the time, and the page says so. The few queries of the page's frame have their own
    timeout."""
    with deadlines.lifted():
        return render(request, template, dict(context), status=status)


def go(request: HttpRequest, address: str, done: str = "") -> HttpResponse:
    """Send the browser from a form or its dialog to another page, which says once, at its top, what
    was ``done``."""
    if done:
        messages.success(request, done)
    if "HX-Request" in request.headers:
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)


def asked_on(request: HttpRequest, otherwise: str) -> str:
    """The page of ours that the request was made on; ``otherwise`` where the browser names none."""
    address = request.headers.get("Referer", "")
    return _path_of(address) if urlsplit(address).netloc == request.get_host() else otherwise


def page_address(name: str, query: str = "") -> str:
    """The address of the page of that name, with a query where there is one."""
    return reverse(f"console:{name}") + (f"?{query}" if query else "")


def query_without(request: HttpRequest, *names: str) -> str:
    """The query of a page's address without some of its parameters."""
    query = request.GET.copy()
    for name in names:
        query.pop(name, None)
    return query.urlencode()


def asked_by_script(request: HttpRequest) -> bool:
    """Whether a page's own script asks, which does not want a page."""
    return "HX-Request" in request.headers or wants_json(request)


def wants_json(request: HttpRequest) -> bool:
    return request.headers.get("Accept") == "application/json"


def refused(
    request: HttpRequest, status: int, code: str, message: str, *, retryable: bool = False
) -> HttpResponse:
    """Tell a page's script why it gets nothing, as JSON or as the error of a region."""
    error = {"code": code, "message": message}
    if wants_json(request):
        return JsonResponse(error, status=status)
    context = {"error": error | {"retryable": retryable}}
    return _rendered(request, "console/partials/fault.html", context, status=status)


def sought(request: HttpRequest) -> str:
    """What a missing page was about, to fill the search box of the error page."""
    return "/".join(request.path.strip("/").split("/")[1:])[:200]


def _to_login(request: HttpRequest) -> HttpResponse:
    if asked_by_script(request):
        return HttpResponse("Signed out. Reload the page to sign in.", status=401)
    if request.method in ("GET", "HEAD"):
        return redirect_to_login(_path_of(request.get_full_path()))
    return HttpResponseRedirect(unsent(request))


def unsent(request: HttpRequest) -> str:
    """The address at which one signs in, if one has to, and is led back to the page of a form that
    was not taken. There ``static/js/unsent.js`` fills it in again."""
    # The form's own address may know forms alone.
    back = asked_on(request, reverse("console:overview"))
    query = urlencode({"unsent": 1, "next": f"{back}#unsent"}, safe="/")
    return f"{reverse('console:login')}?{query}"


def _path_of(address: str) -> str:
    """A page of ours without the host."""
    parts = urlsplit(address)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _actor(request: HttpRequest, principal: Principal) -> Actor:
    return Actor(principal.name, request_id=request_id_of(request))

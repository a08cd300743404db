"""The pages for requests that no view answers."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from engine.model.errors import CoordinatorUnavailable
from txnconsole.console.page import asked_by_script, sought, unsent, wants_json
from txnconsole.enginedb.away import DATABASE_AWAY, is_out_of_time


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that Django itself refuses, such as one for an unknown host."""
    del exception
    return render(request, "400.html", status=400)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address that no view serves."""
    del exception
    return render(request, "404.html", {"sought": sought(request)}, status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """A failure inside a view; Django has logged it under the request's id.

    Rendered without the context processors: the database may be what has failed.
    """
    failure = sys.exception()
    if not isinstance(failure, DATABASE_AWAY) or is_out_of_time(failure):
        return HttpResponse(render_to_string("500.html", {"request": request}), status=500)
    error = CoordinatorUnavailable()
    if wants_json(request):
        return JsonResponse({"code": error.code, "message": error.message}, status=503)
    template = "console/partials/fault.html" if asked_by_script(request) else "503.html"
    return HttpResponse(
        render_to_string(template, {"request": request, "error": error}), status=503
    )


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without this session's CSRF token (``CSRF_FAILURE_VIEW``), for example because the
    user has signed in again since the page was loaded."""
    del reason
    if not asked_by_script(request):
        context = {"request": request, "back": unsent(request)}
        return HttpResponse(render_to_string("403_csrf.html", context), status=403)
    error = {
        "code": "FormExpired",
        "message": "This form is of before you last signed in. Reload the page and send it again.",
    }
    if wants_json(request):
        return JsonResponse(error, status=403)
    context = {"request": request, "error": error}
    fault = render_to_string("console/partials/fault.html", context)
    # The page is made anew, and its script opens the form again as it was.
    return HttpResponse(fault, status=403, headers={"HX-Refresh": "true"})

"""What a browser gets when no view answers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from txnconsole.console.page import sought


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that Django itself refuses, such as one for an unknown host."""
    del exception
    return render(request, "400.html", status=400)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address that no view serves."""
    del exception
    return render(request, "404.html", {"text": sought(request)}, status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """A failure inside a view; Django has logged it under the request's id.

    Rendered without the context processors: the database may be what has failed.
    """
    return HttpResponse(render_to_string("500.html", {"request": request}), status=500)

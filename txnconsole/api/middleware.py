"""Counts requests, and keeps answers to programs out of caches."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from txnconsole.access.requests import PROBES, PROGRAMS
from txnconsole.monitoring.requests import count_request

_Answering = Callable[[HttpRequest], HttpResponseBase]


def count_requests(get_response: _Answering) -> _Answering:
    """Count every request under its route, time it, and keep an answer to a program out of
    caches."""

    def counted(request: HttpRequest) -> HttpResponseBase:
        started = monotonic()
        response = get_response(request)
        count_request(request, response.status_code, monotonic() - started)
        if request.path.startswith((*PROGRAMS, *PROBES)):
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    return counted

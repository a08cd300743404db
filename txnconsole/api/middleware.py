"""Counts requests, and keeps answers to programs out of caches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from txnconsole.monitoring.requests import count_request

_PROGRAMS = ("/api/", "/admin/", "/metrics")

Answer = HttpResponseBase | Awaitable[HttpResponseBase]


class MetricsMiddleware:
    """Counts every request under its route, and times it."""

    async_capable = True
    sync_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Answer]) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Answer:
        started = monotonic()
        answer = self._get_response(request)
        if isinstance(answer, HttpResponseBase):
            return _counted(request, answer, started)
        return _counted_later(request, answer, started)


async def _counted_later(
    request: HttpRequest, answer: Awaitable[HttpResponseBase], started: float
) -> HttpResponseBase:
    return _counted(request, await answer, started)


def _counted(request: HttpRequest, response: HttpResponseBase, started: float) -> HttpResponseBase:
    count_request(request, response.status_code, monotonic() - started)
    if request.path.startswith(_PROGRAMS):
        response.headers.setdefault("Cache-Control", "no-store")
    return response

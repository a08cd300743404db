"""The middleware of sessions, which requests of programs skip.

A program identifies itself in each request, so it needs no session and no user of a page. Setting
these up took a tenth of the time of a call (docs/decisions/0046).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from txnconsole.access.requests import is_a_programs

Answer = HttpResponseBase | Awaitable[HttpResponseBase]

#: In the order of ``MIDDLEWARE``; none of them has a hook for views.
_MIDDLEWARE = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
)


class SessionsMiddleware:
    """Adds ``session``, ``user`` and messages to the requests that may need them."""

    async_capable = True
    sync_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Answer]) -> None:
        self._for_programs = self._for_people = get_response
        for name in reversed(_MIDDLEWARE):
            middleware = import_string(name)(self._for_people)
            self._for_people = convert_exception_to_response(middleware)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Answer:
        return (self._for_programs if is_a_programs(request) else self._for_people)(request)

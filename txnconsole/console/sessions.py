"""The middleware of people's requests, which programs' pass by.

A program says who it is in each request, so it has no session, no messages and no account that a
page would ask for. To make them ready took a tenth of what a call costs (docs/decisions/0046).
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

#: As they would stand in ``MIDDLEWARE``; none of them looks at views.
_MIDDLEWARE = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
)


class SessionsMiddleware:
    """Gives ``session``, ``user``, messages and ``htmx`` to the requests that may need them."""

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

"""The time limit of requests (docs/operations.md, Time limits)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from engine.postgres import deadlines

_Answer = HttpResponseBase | Awaitable[HttpResponseBase]
_Answering = Callable[[HttpRequest], _Answer]


@sync_and_async_middleware
def time_limit(get_response: _Answering) -> _Answering:
    """Give every request a deadline, for statements of the engine and of Django. The deadline is a
    third of the request's time: the last statement may take another third, and recording what was
    done the rest. The live channel, the only asynchronous one, has no deadline."""
    if iscoroutinefunction(get_response):
        return get_response

    def limited(request: HttpRequest) -> _Answer:
        seconds = settings.REQUEST_TIMEOUT_MS / 3000
        with deadlines.within(seconds), connection.execute_wrapper(_in_time):
            return get_response(request)

    return limited


def _in_time(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    deadlines.check()
    return execute(sql, params, many, context)

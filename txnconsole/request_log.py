"""Gives every request an id, and writes one log line about it."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from txnconsole.access.requests import PROBES

_log = structlog.get_logger("txnconsole.request")
_ACCEPTED = re.compile(r"[A-Za-z0-9._:-]{1,64}")
#: The key in a request's META for its id.
_ID = "REQUEST_ID"
#: Probes and assets come all the time and say nothing.
_QUIET = ("/static/", *PROBES)


def about(txn_id: object) -> None:
    """From here on, the lines of this request name the transaction that it is about."""
    if txn_id is not None:
        structlog.contextvars.bind_contextvars(txn_id=str(txn_id))


def refused(code: str) -> None:
    """The line of this request names why it was refused, or failed."""
    structlog.contextvars.bind_contextvars(code=code)


def request_id_of(request: HttpRequest | Request) -> str:
    """The request's id, which its log lines, its audit entries and its answer have; empty before
    the middleware has seen it."""
    return str(request.META.get(_ID, ""))


class RequestLogMiddleware:
    """Binds ``request_id`` to the logs and answers it as ``X-Request-ID``.

    A caller's own id is kept when it is short and plain. The query string stays out of the log: it
    may hold what a user typed.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = given if _ACCEPTED.fullmatch(given) else uuid.uuid4().hex
        request.META[_ID] = request_id
        started = time.monotonic()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            response = self._get_response(request)
            if not request.path.startswith(_QUIET):
                _log.info(
                    "request",
                    method=request.method,
                    path=request.path,
                    status=response.status_code,
                    duration_ms=round((time.monotonic() - started) * 1000, 1),
                )
        finally:
            structlog.contextvars.unbind_contextvars("request_id", "txn_id", "code")
        response["X-Request-ID"] = request_id
        return response

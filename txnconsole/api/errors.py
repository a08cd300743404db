"""Every error as an RFC 9457 answer with a stable code (design/api.md, Error codes).

There are four kinds: errors of the engine, of the framework, of Django outside any view, and those
that nobody expected. All of them are answered as ``application/problem+json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

import msgspec
import structlog
from django.conf import settings
from django.core.exceptions import (
    DisallowedHost,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
)
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions

from engine.model.errors import (
    CoordinatorUnavailable,
    EngineError,
    LimitExceeded,
    TimeLimitExceeded,
)
from txnconsole.access.requests import django_request
from txnconsole.api.limits import BODY_BYTES
from txnconsole.enginedb.away import DATABASE_AWAY, is_out_of_time
from txnconsole.request_log import refused, request_id_of
from txnconsole.statuses import STATUS_OF_CODE, status_of_code

_READING = frozenset({"GET", "HEAD"})
PROBLEM_JSON = "application/problem+json"
RETRY_AFTER_SECONDS = 1

_log = structlog.get_logger(__name__)

#: The codes of the framework's errors; the first class that matches counts.
_CODE_OF_EXCEPTION: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.NotAuthenticated, "NotAuthenticated"),
    (exceptions.AuthenticationFailed, "NotAuthenticated"),
    (exceptions.PermissionDenied, "PermissionDenied"),
    (PermissionDenied, "PermissionDenied"),
    (exceptions.NotFound, "NotFound"),
    (Http404, "NotFound"),
    (exceptions.MethodNotAllowed, "MethodNotAllowed"),
    (exceptions.NotAcceptable, "NotAcceptable"),
    (exceptions.UnsupportedMediaType, "UnsupportedMediaType"),
    (exceptions.Throttled, "LimitExceeded"),
    (exceptions.ParseError, "InvalidRequest"),
    *((kind, "CoordinatorUnavailable") for kind in DATABASE_AWAY),
    (RequestDataTooBig, "PayloadTooLarge"),
    (SuspiciousOperation, "InvalidRequest"),
)

#: What to do after a call that was given up and may have had an effect before.
_GIVEN_UP = (
    "It may have done what it was to do, or not: make the same call again, which does it once"
    " (docs: Repeating a call), or look."
)

#: What Django refuses before any view, with the field and what is wrong with it.
_REFUSED_BY_DJANGO = (
    (DisallowedHost, "Host", "is none of this server's names (ALLOWED_HOSTS)"),
    (TooManyFieldsSent, "", "The query string has too many parameters"),
)

_TITLES = {
    "InvalidRequest": "The request is malformed",
    "NotAuthenticated": "The request does not say who it is from",
    "PermissionDenied": "This is not allowed to the caller",
    "NotFound": "There is nothing at this address",
    "MethodNotAllowed": "This address does not know the method",
    "NotAcceptable": "The answer cannot be given in the form asked for",
    "UnsupportedMediaType": "The body's form is not understood here",
    "PayloadTooLarge": "The message, the batch or the body is above its limit",
    "LimitExceeded": "Too much at a time",
    "TimeLimitExceeded": "The call was not done in time",
    "InternalError": "The server failed",
}


def answer_error(error: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """Turn what a view raised into an answer (DRF's ``EXCEPTION_HANDLER``)."""
    request: HttpRequest = django_request(context["request"])
    if isinstance(error, DATABASE_AWAY):
        _log.warning("database away", path=request.path, error=type(error).__name__)
        error = TimeLimitExceeded() if is_out_of_time(error) else CoordinatorUnavailable()
    if isinstance(error, EngineError):
        return _answer_engine_error(request, error)
    code = code_of(error)
    if code == "InternalError":
        _log.error("request failed", path=request.path, exc_info=error)
        return problem(request, code, "The server failed; its log tells more.")
    if isinstance(error, SuspiciousOperation) and code == "InvalidRequest":
        return bad_request(request, error)
    # A rate passes by itself, as the engine's limit of open transactions does.
    passes = code == LimitExceeded.code
    response = problem(request, code, _detail_of(code, error), retryable=passes)
    challenge = getattr(error, "auth_header", None)
    if challenge:
        response["WWW-Authenticate"] = challenge
    if passes:
        response["Retry-After"] = _seconds(error)
    return response


def status_of(error: Exception) -> int:
    """The HTTP status that :func:`answer_error` gives an error."""
    code = error.code if isinstance(error, EngineError) else code_of(error)
    return status_of_code(code)


def code_of(error: Exception) -> str:
    """The stable code of an error that is not the engine's."""
    for kind, code in _CODE_OF_EXCEPTION:
        if isinstance(error, kind):
            return code
    return "InternalError"


def problem(
    request: HttpRequest,
    code: str,
    detail: str,
    *,
    retryable: bool = False,
    data: Mapping[str, object] | None = None,
) -> HttpResponse:
    """A problem document; ``data`` adds fields that the code defines."""
    status = status_of_code(code)
    refused(code)
    body = {
        "type": f"urn:txnconsole:problem:{code}",
        "title": _TITLES.get(code, HTTPStatus(status).phrase),
        "status": status,
        "detail": detail,
        "code": code,
        "retryable": retryable,
        "request_id": request_id_of(request),
        **(data or {}),
    }
    return HttpResponse(
        msgspec.json.encode(body, enc_hook=str), status=status, content_type=PROBLEM_JSON
    )


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer to a request that Django refused before any view, e.g. for a host that is not
    ours."""
    for kind, field, message in _REFUSED_BY_DJANGO:
        if isinstance(exception, kind):
            errors = [{"field": field, "message": message}]
            detail = f"{field}: {message}." if field else f"{message}."
            return problem(request, "InvalidRequest", detail, data={"errors": errors})
    return problem(request, "InvalidRequest", "The request is malformed.", data={"errors": []})


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer for an address that no view serves."""
    return problem(request, "NotFound", "There is nothing at this address.")


def server_error(request: HttpRequest) -> HttpResponse:
    """The answer after a failure outside any view, which Django has logged."""
    return problem(request, "InternalError", "The server failed; its log tells more.")


def _answer_engine_error(request: HttpRequest, error: EngineError) -> HttpResponse:
    data: dict[str, object] = dict(error.data)
    if error.code not in STATUS_OF_CODE:
        _log.error("engine failed", path=request.path, code=error.code, exc_info=error)
    detail = error.message
    if error.code == TimeLimitExceeded.code:
        data["limit_ms"] = settings.REQUEST_TIMEOUT_MS
        if request.method not in _READING:
            detail = f"{detail} {_GIVEN_UP}"
    response = problem(request, error.code, detail, retryable=error.retryable, data=data)
    if error.retryable:
        response["Retry-After"] = _seconds(error)
    return response


def _seconds(error: Exception) -> str:
    """After how many seconds to come back: whole ones, and never at once."""
    return str(max(RETRY_AFTER_SECONDS, ceil(getattr(error, "wait", None) or 0)))


def _detail_of(code: str, error: Exception) -> str:
    if isinstance(error, RequestDataTooBig):
        return f"The body is larger than this call takes ({BODY_BYTES} bytes)."
    if isinstance(error, exceptions.NotAuthenticated):
        return "Write a token into the header 'Authorization: Bearer <token>', or sign in."
    if isinstance(error, exceptions.APIException):
        return str(error.detail)
    return _TITLES[code] + "."

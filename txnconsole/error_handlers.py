"""Who answers when no view does: the API with a problem document, the console with a page."""

from __future__ import annotations

from types import ModuleType

from django.http import HttpRequest, HttpResponse

from txnconsole.access.requests import PROBES, PROGRAMS
from txnconsole.api import errors as api_errors
from txnconsole.console import errors as console_errors


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    answer: HttpResponse = _answering(request).bad_request(request, exception)
    return answer


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    answer: HttpResponse = _answering(request).not_found(request, exception)
    return answer


def server_error(request: HttpRequest) -> HttpResponse:
    answer: HttpResponse = _answering(request).server_error(request)
    return answer


def _answering(request: HttpRequest) -> ModuleType:
    return api_errors if request.path.startswith((*PROGRAMS, *PROBES)) else console_errors

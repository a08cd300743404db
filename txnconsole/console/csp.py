"""The content security policy of the console (design/console.md D6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

#: The hash is that of the empty string: plotly inserts an empty <style> and fills it through the
#: object model. No other inline style and no inline script passes.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "object-src 'none'",
    )
)
_HEADER = "Content-Security-Policy"


class ContentSecurityPolicyMiddleware:
    """Set the policy on every response that does not have one of its own."""

    async_capable = True
    sync_capable = True

    def __init__(
        self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]
    ) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        answer = self.get_response(request)
        return _protect(answer) if isinstance(answer, HttpResponseBase) else _later(answer)


async def _later(answer: Awaitable[HttpResponseBase]) -> HttpResponseBase:
    return _protect(await answer)


def _protect(response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault(_HEADER, POLICY)
    return response

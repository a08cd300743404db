"""The content security policy of the console (design/console.md D6)."""

from __future__ import annotations

from collections.abc import Callable

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

_Answering = Callable[[HttpRequest], HttpResponseBase]


def content_security_policy(get_response: _Answering) -> _Answering:
    """Set the policy on every response that does not have one of its own."""

    def protected(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    return protected

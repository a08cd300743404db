"""Secrets that are shown once, on a page that can be loaded again without making another one.

The answer that makes a secret leads to the page that shows it. In between only the browser has it,
in a signed cookie for that page and that user, which the page takes away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.conf import settings
from django.core import signing
from django.http import HttpResponse

from txnconsole.console.page import ConsoleRequest, go

_COOKIE = "shown-once"
_KEPT_S = 60


def show_once(request: ConsoleRequest, address: str, told: Mapping[str, str]) -> HttpResponse:
    """Send the browser to the page at ``address``, which gets ``told`` from :func:`shown`."""
    answer = go(request, address)
    if told:
        answer.set_cookie(
            _COOKIE,
            signing.dumps(dict(told), salt=_salt(request, address)),
            max_age=_KEPT_S,
            path=address,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
    return answer


def shown(
    request: ConsoleRequest, render: Callable[[Mapping[str, str]], HttpResponse]
) -> HttpResponse:
    """The page as ``render`` makes it of what it was told; of nothing when that has been shown, is
    another user's, or is older than a minute."""
    kept = request.COOKIES.get(_COOKIE, "")
    try:
        told = signing.loads(kept, salt=_salt(request, request.path), max_age=_KEPT_S)
    except signing.BadSignature:
        return render({})
    answer = render(told)
    answer.delete_cookie(_COOKIE, path=request.path, samesite="Lax")
    answer["Cache-Control"] = "no-store"
    return answer


def _salt(request: ConsoleRequest, address: str) -> str:
    return f"{address} {request.principal.name}"

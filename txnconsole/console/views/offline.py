"""What a browser shows when the server cannot be reached: a card that it has kept.

A service worker fetches the card and its styles once and answers a navigation with it when nothing
else does. It keeps nothing else, so nobody is shown an old page for a new one.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_GET


@require_GET
@cache_control(no_cache=True)
def card(request: HttpRequest) -> HttpResponse:
    """The card itself; it is about nobody, so it needs no login."""
    return render(request, "offline.html")


@require_GET
@cache_control(no_cache=True)
def worker(request: HttpRequest) -> HttpResponse:
    """The service worker: at the root, because its place is what it works for. It names the styles
    as this version has them, so that a new version's worker differs and replaces it."""
    return render(request, "offline.js", content_type="text/javascript")

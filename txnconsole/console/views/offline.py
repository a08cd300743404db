"""What a browser shows when the server cannot be reached: a page that it has stored.

A service worker fetches this page and its styles once, and shows it when a navigation gets no
answer. It stores nothing else, so nobody takes an old page for a current one.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe


@require_safe
@cache_control(no_cache=True)
def card(request: HttpRequest) -> HttpResponse:
    """The stored page itself. It shows nothing about anybody, so it needs no login."""
    return render(request, "offline.html")


@require_safe
@cache_control(no_cache=True)
def worker(request: HttpRequest) -> HttpResponse:
    """The service worker. It is at the root because it works for the paths below its own. It names
    this version's styles, so that the worker of another version differs and replaces it."""
    return render(request, "offline.js", content_type="text/javascript")

"""The product's addresses: probes at the root, the REST API under /api/v1/, the console beside."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

handler400 = "txnconsole.api.errors.bad_request"
handler404 = "txnconsole.api.errors.not_found"
handler500 = "txnconsole.api.errors.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("txnconsole.api.operations")),
    path("api/v1/", include("txnconsole.api.urls")),
    path("", include("txnconsole.console.urls")),
]

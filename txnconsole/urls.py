"""The product's addresses: probes at the root, the REST API under /api/v1/, the console beside."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from txnconsole.api.routing import RememberingResolver

handler400 = "txnconsole.error_handlers.bad_request"
handler404 = "txnconsole.error_handlers.not_found"
handler500 = "txnconsole.error_handlers.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    # First: addresses are tried in order.
    RememberingResolver("api/v1/", "txnconsole.api.urls"),
    path("", include("txnconsole.api.probes")),
    path("admin/v3/transactions/", include("txnconsole.pulsar.urls")),
    path("", include("txnconsole.console.urls")),
]

"""The product's addresses: probes at the root, the REST API under /api/v1/, the console beside."""

from __future__ import annotations

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

_ROUTES = (
    ("", "txnconsole.api.operations"),
    ("api/v1/", "txnconsole.api.urls"),
    ("", "txnconsole.console.urls"),
)


def _exists(module: str) -> bool:
    package, _, _ = module.rpartition(".")
    return find_spec(package) is not None and find_spec(module) is not None


handler400 = "txnconsole.error_handlers.bad_request"
handler404 = "txnconsole.error_handlers.not_found"
handler500 = "txnconsole.error_handlers.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    path(prefix, include(module)) for prefix, module in _ROUTES if _exists(module)
]

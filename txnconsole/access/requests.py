"""Typed access to the framework's request."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest
from rest_framework.request import Request

from txnconsole.access.principal import Principal

#: Where the paths of programs begin, and those of probes and metrics.
PROGRAMS = ("/api/", "/admin/")
PROBES = ("/healthz", "/readyz", "/metrics")


def is_a_programs(request: HttpRequest) -> bool:
    """Whether a request is for an address of programs and identifies itself, by a header that is
    enough to decide who it is from (:class:`txnconsole.access.authentication.TokenAuthentication`).
    """
    return bool(request.META.get("HTTP_AUTHORIZATION")) and request.path.startswith(PROGRAMS)


def django_request(request: Request) -> HttpRequest:
    """Django's own request, which DRF wraps."""
    return request._request  # noqa: SLF001  # DRF has no other name for it.


def principal_behind(request: Request) -> Principal | None:
    """Who sent the request; None for an anonymous one."""
    return cast("Principal | None", request.auth)


def principal_of_request(request: Request) -> Principal:
    """Who sent a request that has passed the permission check, so it is not anonymous."""
    return cast("Principal", request.auth)

"""Probes and metrics, at the root of the server (design/api.md, Coordinators, operations).

From this machine readiness and metrics can be read without authentication. From others they need a
token or a session that may read them, unless ``TXNCONSOLE_OPERATIONS_OPEN`` is set. A request that
comes through a proxy counts as one from another machine, wherever the proxy runs.
"""

from __future__ import annotations

import ipaddress

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import AllowAny, BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from txnconsole.access.requests import django_request, principal_behind
from txnconsole.access.roles import Permission
from txnconsole.alerts.metrics import AlertsCollector
from txnconsole.api.decoding import JSON
from txnconsole.api.endpoint import OneFormEndpoint
from txnconsole.api.structs.probes import Health, PartState, Readiness
from txnconsole.enginedb.wiring import engine
from txnconsole.monitoring.exposition import CONTENT_TYPE, exposition
from txnconsole.queue import connection, heartbeat

_FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_VIA")


class FromThisMachineOrGranted(BasePermission):
    """Lets through requests from this machine, callers that may read operations, and everybody
    where that is configured."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        principal = principal_behind(request)
        if principal is not None:
            return principal.may(Permission.OPERATION_READ)
        return _asks_nobody(django_request(request))


class Probe(OneFormEndpoint):
    """An address for what watches the server; some probes and scrapers name a form of their own."""

    throttle_classes = ()
    schema = None


class Watched(Probe):
    """How the server is, for those who may know it. Who they are is not asked where anybody may, as
    that needs the coordinators' database, which may be what is away."""

    permission_classes = (FromThisMachineOrGranted,)

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [] if _asks_nobody(self.request) else super().get_authenticators()


class Healthz(Probe):
    """Whether the process serves at all."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    def get(self, request: Request) -> HttpResponse:
        return _answer(Health(), 200)


class Readyz(Watched):
    """Whether all parts that the server needs are up; 503 names those that are not."""

    def get(self, request: Request) -> HttpResponse:
        readiness = _readiness()
        return _answer(readiness, 200 if readiness.status == "ready" else 503)


class Metrics(Watched):
    """Metrics for Prometheus."""

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(exposition(AlertsCollector()), content_type=CONTENT_TYPE)


def _readiness() -> Readiness:
    databases = [_part(name, problem) for name, problem in engine().ping().items()]
    queue = _part("redis", connection.ping())
    seen = heartbeat.workers_seen()
    silence = "unknown without the queue" if seen is None else "none was seen of late"
    workers = _part("workers", None if seen else silence)
    ready = all(part.state == "up" for part in (*databases, queue, workers))
    return Readiness(
        status="ready" if ready else "not ready",
        databases=databases,
        queue=queue,
        workers=workers,
    )


def _part(name: str, problem: str | None) -> PartState:
    return PartState(name=name, state="down" if problem else "up", detail=problem or "")


def _answer(body: msgspec.Struct, status: int) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), status=status, content_type=JSON)


def _asks_nobody(request: HttpRequest) -> bool:
    """Whether whoever sends this request may read readiness and metrics."""
    return bool(settings.OPERATIONS_OPEN) or _from_this_machine(request)


def _from_this_machine(request: HttpRequest) -> bool:
    if any(header in request.META for header in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:  # A Unix socket has no address; behind it is a proxy, or somebody unknown.
        return False


urlpatterns = [
    path("healthz", Healthz.as_view()),
    path("readyz", Readyz.as_view()),
    path("metrics", Metrics.as_view()),
]

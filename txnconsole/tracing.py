"""Traces over OpenTelemetry's protocol, off by default (docs/monitoring.md).

``TXNCONSOLE_TRACES=1`` turns them on; where they go, which share of them and under which service's
name is said by OpenTelemetry's own variables (``OTEL_EXPORTER_OTLP_ENDPOINT``,
``OTEL_TRACES_SAMPLER``, ``OTEL_SERVICE_NAME``). While they are off, this middleware is not
installed and OpenTelemetry is not imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from structlog.typing import EventDict

import engine
from engine import tracing
from engine.tracing import Kind

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_FLUSH_MS = 2000
#: What of a path an attribute may name; anything else may be text that a caller made up.
_NAMED = ("txn_id", "partition", "subscription", "tc_id")


class _Exporting:
    """How to send what is left; None while nothing is exported."""

    flush: Callable[[int], bool] | None = None


def configure() -> None:
    """Have this process, and those forked from it, send spans."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    service = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME", "txnconsole"),
        "service.version": engine.__version__,
    }
    provider = TracerProvider(resource=Resource.create(service))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _Exporting.flush = provider.force_flush
    tracing.turn_on(provider.get_tracer("txnconsole", engine.__version__))


def name_span(_logger: object, _name: str, event: EventDict) -> EventDict:
    """Name the current span in a line of the log, so that a line leads to its trace."""
    ids = tracing.current_ids()
    if ids is not None:
        event["trace_id"], event["span_id"] = ids
    return event


def flush() -> None:
    """Send what is left, for two seconds at most."""
    if _Exporting.flush is not None:
        _Exporting.flush(_FLUSH_MS)


class TraceMiddleware:
    """A span for each request, within the caller's when it sends a ``traceparent``.

    Its name is the route: paths hold what callers write.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        method = request.method or ""
        given = request.headers.get("traceparent")
        with tracing.continued(given, method, Kind.SERVER) as span:
            response = self._get_response(request)
            if span is not None:
                _describe(span, request, response)
            return response


def _describe(span: Span, request: HttpRequest, response: HttpResponse) -> None:
    """Name a span after its request, and give it the facts of the answer."""
    method, match = request.method or "", request.resolver_match
    span.set_attribute("http.request.method", method)
    span.set_attribute("http.response.status_code", response.status_code)
    span.set_attribute("request_id", str(request.META.get("REQUEST_ID", "")))
    if match is not None:
        span.update_name(f"{method} {match.route}")
        span.set_attribute("http.route", match.route)
        for name, value in match.kwargs.items():
            if name in _NAMED:
                span.set_attribute(name, str(value))
    if response.status_code >= 500:
        tracing.fail(span, str(response.status_code))

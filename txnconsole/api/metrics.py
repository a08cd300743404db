"""Figures for Prometheus; names begin with ``txnconsole_``.

Requests are counted as they are answered. What the engine holds is asked when Prometheus comes,
with a few indexed reads. Several web processes share their counters through the directory that
``PROMETHEUS_MULTIPROC_DIR`` names, as prometheus-client lays down.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import structlog
from django.http import HttpRequest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import REGISTRY, Collector

from engine.model.errors import EngineError
from txnconsole.enginedb.wiring import engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HELD_BACK_PARTITIONS = 10
_log = structlog.get_logger(__name__)

_requests = Counter(
    "txnconsole_http_requests_total", "Requests answered.", ["method", "route", "status"]
)
_seconds = Histogram(
    "txnconsole_http_request_duration_seconds",
    "Seconds from a request's arrival to its answer, waiting on purpose included.",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30),
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


def count_request(request: HttpRequest, status: int, seconds: float) -> None:
    """Count one answered request under its route, never under what a caller wrote."""
    match = request.resolver_match
    route = "none" if match is None else match.route
    method = request.method if request.method in _METHODS else "other"
    _requests.labels(method, route, str(status)).inc()
    _seconds.labels(method, route).observe(seconds)


class EngineCollector(Collector):
    """What the engine holds at the moment of asking."""

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Ask the engine; a database that cannot be reached leaves its figures out."""
        open_transactions = GaugeMetricFamily(
            "txnconsole_transactions", "Transactions that have not ended.", labels=["status"]
        )
        held_back = GaugeMetricFamily(
            "txnconsole_held_back_offsets",
            "Offsets above the stable position, of the partitions held back most.",
            labels=["partition"],
        )
        try:
            for status, count in engine().coordinator.counts().items():
                open_transactions.add_metric([status], count)
            for partition in engine().inspect.held_back(limit=_HELD_BACK_PARTITIONS).partitions:
                held_back.add_metric([str(partition.partition)], partition.hidden_messages)
        except EngineError as error:
            _log.warning("metrics incomplete", code=error.code)
        return open_transactions, held_back


def exposition() -> bytes:
    """All figures in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(EngineCollector())
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest(REGISTRY) + generate_latest(registry)

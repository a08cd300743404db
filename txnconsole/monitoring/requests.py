"""Counts answered requests, in this process."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from functools import cache

import structlog
from django.http import HttpRequest
from prometheus_client import Counter, Histogram, Metric, disable_created_metrics
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # A second series for each one.

_requests = Counter(
    "txnconsole_http_requests_total", "Requests answered.", ["method", "route", "status"]
)
_answers = Counter(
    "txnconsole_http_answers_total", "Requests answered, by the class of their status.", ["class"]
)
_seconds = Histogram(
    "txnconsole_http_request_duration_seconds",
    "Seconds from a request's arrival to its answer, waiting on purpose included.",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30),
)
_log = structlog.get_logger(__name__)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_CLASSES = ("2xx", "3xx", "4xx", "5xx")


def tell_all_classes() -> None:
    """Have the classes there with 0 of which nothing has been answered, so that a rate sees the
    first: of ``txnconsole_http_requests_total`` each route, method and status begins with 1."""
    try:
        for each in _CLASSES:
            _answers.labels(each)
    except OSError as error:
        _tell_once(error.filename, error.strerror)


class SharedCounts(Collector):
    """What all processes behind one address have counted (``PROMETHEUS_MULTIPROC_DIR``). Where
    that cannot be read nothing of it is told, and the log says so once."""

    def collect(self) -> Iterable[Metric]:
        """Read everybody's files; never raises for what they are like."""
        try:
            return list(MultiProcessCollector(None).collect())  # type: ignore[no-untyped-call]
        except (OSError, ValueError, RuntimeError, struct.error) as error:
            _tell_once(os.environ.get("PROMETHEUS_MULTIPROC_DIR"), str(error))
            return ()


def count_request(request: HttpRequest, status: int, seconds: float) -> None:
    """Count one answered request under its route, never under what a caller wrote.

    Never fails: what was asked for is done. Where counts are shared by files
    (``PROMETHEUS_MULTIPROC_DIR``) that cannot be written, the log says so once.
    """
    match = request.resolver_match
    route = "none" if match is None else match.route
    method = request.method if request.method in _METHODS else "other"
    try:
        _requests.labels(method, route, str(status)).inc()
        _answers.labels(f"{status // 100}xx").inc()
        _seconds.labels(method, route).observe(seconds)
    except OSError as error:
        _tell_once(error.filename, error.strerror)


@cache
def _tell_once(file: str | None, reason: str | None) -> None:
    _log.error("requests are not counted", file=file, reason=reason)

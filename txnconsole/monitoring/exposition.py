"""All figures in Prometheus's text format."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import REGISTRY, Collector

from txnconsole.monitoring.collector import ProductCollector
from txnconsole.monitoring.requests import SharedCounts, tell_all_classes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(*more: Collector) -> bytes:
    """What has been counted, and how everything stands; and what other collectors tell."""
    tell_all_classes()
    registry = CollectorRegistry()
    for collector in (ProductCollector(), *more):
        registry.register(collector)
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry.register(SharedCounts())
        return generate_latest(registry)
    return generate_latest(REGISTRY) + generate_latest(registry)

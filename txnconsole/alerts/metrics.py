"""What fires, for Prometheus. The web process tells it, so it also tells of silent workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import structlog
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from txnconsole.alerts import reading
from txnconsole.alerts.models import Rule
from txnconsole.enginedb.away import DATABASE_AWAY

_log = structlog.get_logger(__name__)


class AlertsCollector(Collector):
    """Counts the alerts at each scrape; tells nothing when the database does not answer."""

    def collect(self) -> Iterable[Metric]:
        firing = GaugeMetricFamily(
            "txnconsole_alerts_firing",
            "Alerts that fire and are not silenced.",
            labels=["rule", "severity"],
        )
        age = GaugeMetricFamily(
            "txnconsole_alerts_evaluation_age_seconds",
            "Seconds since a worker last went through all rules.",
        )
        try:
            counts = Counter(dict.fromkeys(Rule.objects.values_list("name", "severity"), 0))
            standing = reading.standing()
            counts.update(reading.firing_by_rule(standing))
        except DATABASE_AWAY as error:
            _log.warning("alerts not told", error=type(error).__name__)
            return ()
        for pair, count in counts.items():
            firing.add_metric(list(pair), count)
        if standing.evaluated_at is not None:
            age.add_metric([], (standing.now - standing.evaluated_at).total_seconds())
        return firing, age

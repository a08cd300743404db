"""What Prometheus is told of alerts."""

from __future__ import annotations

import pytest

from tests.alerts.conftest import alert, rule_of
from txnconsole.alerts import reading
from txnconsole.alerts.kinds import Kind
from txnconsole.alerts.metrics import AlertsCollector

pytestmark = pytest.mark.django_db


@pytest.mark.plans
def test_all_that_fires_is_counted_however_much_it_is() -> None:
    rule = rule_of(Kind.HELD_BACK)
    for number in range(reading.MAX_FIRING + 1):
        alert(number, rule=rule, rule_name=rule.name, severity=rule.severity)
    firing, _ = AlertsCollector().collect()
    [told] = firing.samples
    assert told.labels == {"rule": rule.name, "severity": rule.severity}
    assert told.value == reading.MAX_FIRING + 1

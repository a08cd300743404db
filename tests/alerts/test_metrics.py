"""What Prometheus is told of alerts."""

from __future__ import annotations

import pytest

from tests.alerts.conftest import rule_of
from txnconsole.alerts import reading
from txnconsole.alerts.clock import database_now
from txnconsole.alerts.kinds import Kind
from txnconsole.alerts.metrics import AlertsCollector
from txnconsole.alerts.models import Alert
from txnconsole.alerts.states import AlertState

pytestmark = pytest.mark.django_db


def test_all_that_fires_is_counted_however_much_it_is() -> None:
    rule, now = rule_of(Kind.HELD_BACK), database_now()
    Alert.objects.bulk_create(
        Alert(
            rule=rule,
            rule_name=rule.name,
            kind=rule.kind,
            severity=rule.severity,
            threshold=0,
            object=f"partition:public/default/flights:{number}",
            state=AlertState.FIRING,
            value=1,
            peak=1,
            pending_since=now,
            fired_at=now,
            measured_at=now,
        )
        for number in range(reading.MAX_FIRING + 1)
    )
    firing, _ = AlertsCollector().collect()
    [told] = firing.samples
    assert told.labels == {"rule": rule.name, "severity": rule.severity}
    assert told.value == reading.MAX_FIRING + 1

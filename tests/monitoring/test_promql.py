from __future__ import annotations

import pytest

from tests.monitoring.promql import Malformed, asked


def test_it_tells_metrics_labels_and_demanded_values() -> None:
    [late, every] = asked(
        'sum by (task) (max by (task, result) (rate(a_total{result="failed", x=~"5.."}[5m])))'
        " / (max(b) > 0) "
    )
    assert (late.metric, late.labels) == ("a_total", {"task", "result", "x"})
    assert late.values == {"result": "failed"}
    assert (every.metric, every.labels) == ("b", set())


def test_a_quantile_asks_for_the_bound() -> None:
    [one] = asked("histogram_quantile(0.99, max(rate(a_bucket[$__rate_interval])) by (le))")
    assert one.labels == {"le"}


@pytest.mark.parametrize(
    "query",
    [
        *("", "sum(a", "sum(a))", "a{b}", 'a{b="c"', "a{b=1}", "a b", "a >", "1 2", "a{b='c'}"),
        *("rate(a_total)", "rate(a[5m])", "sum(a_total[5m])", "nosuch(a)", "a[5]", "topk(a)"),
        *("histogram_quantile(rate(a_bucket[5m]))", "a_total[5m] > 1", "a ~ b", "sum by task (a)"),
    ],
)
def test_what_is_no_query_is_refused(query: str) -> None:
    with pytest.raises(Malformed):
        asked(query)

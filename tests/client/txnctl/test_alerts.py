"""``txnctl alerts``, against a real worker."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.client.txnctl.conftest import Txnctl
from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.client.txnctl.alerts import _with_unit


def test_what_fires_is_listed_acknowledged_and_silenced(txnctl: Txnctl, server: Served) -> None:
    topic = server.topic()
    rule = {"name": topic, "kind": "held_back", "threshold": 0, "topics": topic}
    with server.client("admin") as admin, server.client("producer") as program:
        made = admin.post("/alerts/rules", json=rule).raise_for_status().json()
        txn_id = program.post("/transactions", json={"timeout_ms": 600_000}).json()["txn_id"]
        sent = program.post(
            f"/topics/{topic}/partitions/0/messages",
            json={"txn_id": txn_id, "messages": [{"payload": "x"}]},
        )
        assert sent.status_code == httpx.codes.CREATED

        def fires() -> bool:
            return bool(txnctl("-o", "json", "alerts", "list", "--rule", topic).json)

        assert eventually(fires)
        [alert] = txnctl("-o", "json", "alerts", "list", "--rule", topic).json
        shown = txnctl("alerts", "list", "--rule", topic, role="viewer").out
        assert f"partition:{topic}:0" in shown
        assert " s " in shown
        acked = txnctl("alerts", "ack", str(alert["id"]), "--note", "on it", role="operator")
        assert "on it" in acked.out
        assert txnctl("alerts", "ack", str(alert["id"]), role="viewer").code == 4
        why = ("--reason", "planned work", "--hours", "2")
        silenced = txnctl("-o", "json", "alerts", "silence", f"partition:{topic}:*", *why).json[0]
        [alert] = txnctl("-o", "json", "alerts", "list", "--rule", topic).json
        assert alert["silenced_until"] == silenced["until"]
        shown = txnctl("alerts", "silences", role="viewer").out
        assert f"partition:{topic}:*" in shown
        assert "planned work" in shown
        assert txnctl("alerts", "unsilence", str(silenced["id"])).code == 0
        holding = txnctl("-o", "json", "alerts", "silences").json
        assert silenced["id"] not in [each["id"] for each in holding]
        [over] = [
            each
            for each in txnctl("-o", "json", "alerts", "silences", "--all").json
            if each["id"] == silenced["id"]
        ]
        assert over["ended_at"]
        rules = txnctl("-o", "json", "alerts", "rules", "--limit", "500", role="viewer").json
        assert made["id"] in [each["id"] for each in rules]
        shown = txnctl("alerts", "rules", "--limit", "500").out
        assert re.search(rf"{topic} +warning +0 ms +at once", shown)
        assert txnctl("alerts", "list", "--state", "nothing").code == 2
        program.post(f"/transactions/{txn_id}/abort", json={}).raise_for_status()
        admin.delete(f"/alerts/rules/{made['id']}").raise_for_status()


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(1.0, "count", "1"), (82.44, "percent", "82.4 %"), (10.0, "per_minute", "10 a minute")],
)
def test_values_read_as_in_the_console(value: float, unit: str, shown: str) -> None:
    assert _with_unit(value, unit) == shown

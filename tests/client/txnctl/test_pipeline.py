"""``txnctl pipeline``, against a real worker; no run gets so far as to end by itself."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.client.txnctl.conftest import Ran, Txnctl
from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.client.txnctl import pipeline


def test_jobs_are_listed_with_what_they_are_asked_for(txnctl: Txnctl) -> None:
    shown = txnctl("pipeline", "jobs", role="viewer").out
    assert re.search(r"audit +topics\? +Recomputes", shown)
    assert re.search(r"replay +name, source, target", shown)


def test_a_run_is_started_waited_for_cancelled_and_listed(txnctl: Txnctl, server: Served) -> None:
    topic = server.topic()
    started = txnctl(
        *("-o", "json", "pipeline", "start", "audit", f"topics={topic}"),
        *("--reason", "monthly"),
        role="operator",
    ).json[0]
    assert (started["parameters"], started["reason"]) == ({"topics": topic}, "monthly")
    run = str(started["id"])
    assert txnctl("pipeline", "cancel", run, role="viewer").code == 4
    cancelled = txnctl("pipeline", "cancel", run, "--reason", "too early", role="operator")
    assert "test-operator" in cancelled.out

    def ended() -> bool:
        return bool(txnctl("-o", "json", "pipeline", "describe", run).json[0]["ended_at"])

    assert eventually(ended)
    assert re.search(r"state +cancelled", txnctl("pipeline", "describe", run).out)
    listed = txnctl("-o", "json", "pipeline", "runs", "--kind", "audit", "--state", "cancelled")
    assert started["id"] in [each["id"] for each in listed.json]


def test_who_waits_for_a_run_that_is_cancelled_gets_exit_code_1(
    txnctl: Txnctl, server: Served
) -> None:
    topic = server.topic()

    def cancel() -> None:
        with server.client("operator") as operator:

            def found() -> list[int]:
                runs = operator.get("/pipeline/runs").json()["items"]
                return [each["id"] for each in runs if each["parameters"] == {"topics": topic}]

            assert eventually(lambda: bool(found()))
            operator.post(f"/pipeline/runs/{found()[0]}/cancel", json={}).raise_for_status()

    with ThreadPoolExecutor() as beside:
        cancelling = beside.submit(cancel)
        waited = txnctl("pipeline", "start", "audit", f"topics={topic}", "--wait")
        cancelling.result()
    assert (waited.code, "has started" in waited.out) == (1, True)
    assert re.search(r"state +cancelled", waited.out)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "kind is one of audit"),
        (["audit", "topics"], "write NAME=VALUE"),
        (["audit", "topic=x"], "not a parameter of this job"),
        (["replay"], "is required"),
    ],
)
def test_a_run_that_cannot_be_is_malformed(txnctl: Txnctl, arguments: list[str], says: str) -> None:
    refused: Ran = txnctl("pipeline", "start", *arguments)
    assert (refused.code, says in refused.err) == (2, True), refused.err


def test_a_result_and_a_log_are_shown_and_control_the_terminal_no_more(
    txnctl: Txnctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = {
        **dict.fromkeys([path.partition(".")[0] for _, path, _ in pipeline._RUN]),
        "state": "done",
        "result": {"findings": ["\x1b[31m"], "rules": {"gap": "An entry that"}},
        "log_tail": "one\n\x1b[31mtwo\n",
    }
    monkeypatch.setattr("txnconsole.client.txnctl.session.Session.get", lambda *_: ended)
    shown = txnctl("pipeline", "describe", "1").out
    assert '"\\u001b[31m"' in shown
    assert "An entry that" not in shown
    assert "one\n\\x1b[31mtwo" in shown

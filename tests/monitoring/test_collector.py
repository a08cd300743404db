from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from engine import Engine
from engine.inspect import standing
from engine.inspect.inspector import Inspector
from engine.inspect.standing import Standing
from engine.model.figures import FigureName
from engine.model.txn_status import TxnAction
from engine.postgres.database import Database
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    abort,
    batch,
    commit,
    finalize,
    make_topic,
    open_txn,
    overdue,
    subscribe,
    unreachable,
)
from tests.support.eventually import eventually
from tests.support.together import at_once
from txnconsole.audit.recording import Actor, Change, record
from txnconsole.enginedb import wiring
from txnconsole.monitoring import observation
from txnconsole.monitoring.exposition import exposition
from txnconsole.queue import heartbeat

pytestmark = pytest.mark.usefixtures("looked_at_anew")


def scraped() -> dict[str, Metric]:
    families = text_string_to_metric_families(exposition().decode())
    return {family.name: family for family in families}


def value(families: Mapping[str, Metric], sample: str, **labels: str) -> float | None:
    found = [
        each.value
        for family in families.values()
        for each in family.samples
        if each.name == f"txnconsole_{sample}" and labels.items() <= each.labels.items()
    ]
    return sum(found) if found else None


def test_what_transactions_did_is_counted_by_outcome_and_reason(engine: Engine) -> None:
    make_topic(engine)
    for _ in range(2):
        txn = open_txn(engine)
        engine.produce(P0, batch("x"), txn_id=txn)
        commit(engine, txn)
    abort(engine, open_txn(engine, tc_id=3))
    overdue(engine, open_txn(engine))
    engine.coordinator.expire()
    finalize(engine)
    found = scraped()
    assert value(found, "txn_created_total") == 4
    assert value(found, "txn_created_total", coordinator_id="3") == 1
    assert value(found, "txn_committed_total") == 2
    assert value(found, "txn_aborted_total", reason="client") == 1
    assert value(found, "txn_aborted_total", reason="timeout") == 1
    assert value(found, "txn_timeout_total") == 1
    for name in ("txn_execution_seconds", "txn_finalize_seconds"):
        assert value(found, f"{name}_count", outcome="committed") == 2
        assert value(found, f"{name}_bucket", outcome="aborted", le="+Inf") == 2
    assert value(found, "visible_latency_seconds_count") == 2


def test_a_restart_takes_nothing_from_a_counter(engine: Engine) -> None:
    commit(engine, open_txn(engine))
    wiring.engine().figures.count(FigureName.OPERATOR_ACTIONS, "topic.create/done")
    before = scraped()
    wiring.close()  # The process ends; another one answers.
    after = scraped()
    for name in ("txn_created_total", "txn_committed_total", "operator_actions_total"):
        assert value(after, name) == value(before, name) == 1


def test_gauges_are_answers_of_the_engine(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("read"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    holder = open_txn(engine, tc_id=2)
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=holder)
    engine.produce(P1, batch("a"), txn_id=holder)
    engine.produce(P1, batch("b", "c"))
    found = scraped()
    assert value(found, "txn_open", coordinator_id="2") == 1
    assert value(found, "txn_open") == 1
    assert value(found, "partitions_held_back") == 1
    assert value(found, "stable_position_lag_messages") == 3
    assert value(found, "pending_ack_open") == 1
    assert value(found, "txn_overdue") == 0
    engine.coordinator.end(holder, TxnAction.COMMIT)
    assert value(scraped(), "txn_finalizing", status="COMMITTING") == 1
    finalize(engine)
    assert value(scraped(), "stable_position_lag_messages") == 0


def test_topics_and_subscriptions_are_told_only_where_that_is_configured(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    holder = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=holder)
    assert b"flights" not in exposition()
    monkeypatch.setattr(settings, "METRICS_BY_TOPIC", True)
    found = scraped()
    of_topic = {"topic": "public/default/flights"}
    assert value(found, "stable_position_lag_messages", **of_topic, partition="0") == 2
    assert value(found, "pending_ack_open", **of_topic, subscription="monitor") == 0


def test_labels_that_are_known_are_there_from_the_start(engine: Engine) -> None:
    found = scraped()
    assert value(found, "txn_committed_total") == 0
    assert value(found, "txn_aborted_total", reason="operator") == 0
    assert value(found, "finalize_retries_total", participant_kind="subscription") == 0
    assert value(found, "txn_finalize_seconds_bucket", outcome="committed", le="0.1") == 0
    assert value(found, "visible_latency_seconds_count") == 0
    assert value(found, "task_seconds_count", task="finalize", result="failed") == 0
    assert value(found, "tasks_killed_total", task="sweep") == 0
    assert value(found, "http_answers_total", **{"class": "5xx"}) is not None


@pytest.mark.parametrize(
    "content",
    [None, b"\x10\x00\x00\x00", b"\x40\x00\x00\x00damaged" * 9],
    ids=["missing", "cut", "damaged"],
)
def test_counts_of_requests_that_cannot_be_read_are_missing_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    """Nothing was told, and the alert about no web server fired."""
    shared = tmp_path / "shared"
    if content is not None:
        shared.mkdir()
        (shared / "counter_1.db").write_bytes(content)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(shared))
    found = scraped()
    assert value(found, "database_up", database="broker-1") == 1
    assert value(found, "http_requests_total") is None


def test_a_broker_that_is_gone_is_absent_and_not_zero(engine: Engine) -> None:
    with unreachable(engine, "broker-2"):
        found = scraped()
    assert value(found, "database_up", database="broker-1") == 1
    assert value(found, "database_up", database="broker-2") == 0
    assert value(found, "partitions_held_back", broker="broker-2") is None
    assert value(found, "queue_up") == 0
    assert value(found, "worker_up") is None


def test_a_broker_that_does_not_answer_holds_up_nothing_else(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, thawed = standing._figures, threading.Event()
    frozen = engine._brokers._databases["broker-2"]

    def ask(database: Database, *arguments: Any) -> Any:
        if database is frozen:
            thawed.wait()
        return real(database, *arguments)

    def wait_for_others(asked: list[Future[object]], timeout: float) -> None:
        wait(asked[:-1])

    monkeypatch.setattr(standing, "_figures", ask)
    monkeypatch.setattr(standing, "wait", wait_for_others, raising=False)
    seen: list[Mapping[str, Metric]] = []
    scrape = threading.Thread(target=lambda: seen.append(scraped()))
    scrape.start()
    try:
        assert eventually(lambda: not scrape.is_alive())
    finally:
        thawed.set()
        scrape.join()
    assert value(seen[0], "database_up", database="broker-2") == 0
    assert value(seen[0], "database_up", database="broker-1") == 1
    assert value(seen[0], "partitions_held_back", broker="broker-2") is None


def test_workers_and_queue_are_told(engine: Engine, valkey_url: str) -> None:
    assert value(scraped(), "worker_up") == 0
    heartbeat.beat("worker-1")
    found = scraped()
    assert (value(found, "worker_up"), value(found, "queue_length")) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_operators_actions_are_counted_and_programs_own_ends_are_not(engine: Engine) -> None:
    for reason in ("stuck", ""):
        record(Change(Actor("ann"), "transaction.abort", "0:1", reason=reason))
    record(Change(Actor("ann"), "partition.offline", "a/b/c:0", result="InvalidPartitionState"))
    found = scraped()
    assert value(found, "operator_actions_total", action="transaction.abort", result="done") == 1
    refused = {"action": "partition.offline", "result": "InvalidPartitionState"}
    assert value(found, "operator_actions_total", **refused) == 1


def test_many_who_come_at_once_share_one_look(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "KEPT_SECONDS", 60.0)
    looks: list[Standing] = []
    look: Callable[..., Standing] = Inspector.standing

    def counted(self: Inspector, **options: bool) -> Standing:
        looks.append(look(self, **options))
        return looks[-1]

    monkeypatch.setattr(Inspector, "standing", counted)
    at_once(8, lambda _: exposition())
    assert len(looks) == 1


def test_coordinators_beyond_the_listed_are_summed_up(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from txnconsole.monitoring import collector

    monkeypatch.setattr(collector, "_COORDINATORS", 2)
    for tc_id in range(4):
        open_txn(engine, tc_id=tc_id)
    found = scraped()
    assert value(found, "txn_open", coordinator_id="other") == 2
    assert value(found, "txn_open") == 4

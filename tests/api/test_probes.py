from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from engine import Engine
from engine.model.topic_name import TopicName
from tests.api.conftest import Caller
from txnconsole.queue import heartbeat


def _get(path: str, **extra: Any) -> Any:
    return Client().get(path, **extra)


@pytest.fixture
def everything_up(engine: Engine, valkey_url: str) -> None:
    heartbeat.beat("worker-1")


def test_healthz_answers_without_any_other_part(db: None) -> None:
    answer = _get("/healthz", REMOTE_ADDR="203.0.113.7")
    assert (answer.status_code, answer.json()) == (200, {"status": "up"})


def test_readyz_is_200_when_every_part_is_up(everything_up: None) -> None:
    answer = _get("/readyz")
    assert answer.status_code == 200
    body = answer.json()
    assert body["status"] == "ready"
    assert {each["name"] for each in body["databases"]} == {"coordinator", "broker-1", "broker-2"}
    assert {each["state"] for each in body["databases"]} == {"up"}
    assert (body["queue"]["state"], body["workers"]["state"]) == ("up", "up")


def test_readyz_is_503_and_says_so_when_no_worker_was_seen(engine: Engine, valkey_url: str) -> None:
    answer = _get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["queue"]["state"] == "up"
    assert answer.json()["workers"]["state"] == "down"


def test_readyz_is_503_without_the_queue(engine: Engine) -> None:
    answer = _get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["queue"]["state"] == "down"
    assert "unknown" in answer.json()["workers"]["detail"]


@pytest.mark.waits
def test_readyz_names_a_database_that_is_gone(
    everything_up: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from txnconsole.enginedb import wiring

    gone = [settings.BROKER_DATABASE_URLS[0], "host=/nonexistent dbname=x"]
    monkeypatch.setattr(settings, "BROKER_DATABASE_URLS", gone)
    wiring.close()
    answer = _get("/readyz")
    wiring.close()
    assert answer.status_code == 503
    states = {each["name"]: each["state"] for each in answer.json()["databases"]}
    assert states == {"coordinator": "up", "broker-1": "up", "broker-2": "down"}


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
@pytest.mark.parametrize(
    "extra",
    [
        {"REMOTE_ADDR": "203.0.113.7"},
        {"REMOTE_ADDR": "::ffff:10.0.0.1"},
        {"REMOTE_ADDR": ""},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_FORWARDED": "for=127.0.0.1"},
    ],
)
def test_other_machines_need_a_role_unless_it_is_configured(
    path: str,
    extra: dict[str, str],
    everything_up: None,
    as_role: Callable[..., Caller],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _get(path, **extra).status_code == 401
    for role, status in (("viewer", 200), ("producer", 403)):
        secret = as_role(role)._headers["Authorization"]
        assert _get(path, headers={"Authorization": secret}, **extra).status_code == status
    monkeypatch.setattr(settings, "OPERATIONS_OPEN", True)
    assert _get(path, **extra).status_code == 200


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
def test_a_token_is_not_looked_up_where_anybody_may_ask(
    path: str,
    everything_up: None,
    as_role: Callable[..., Caller],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else what is scraped with a token tells nothing while the coordinators' database is away."""
    secret = as_role("viewer")._headers["Authorization"]

    def away(_: str) -> None:
        raise OperationalError

    monkeypatch.setattr("txnconsole.access.authentication.recognise", away)
    far = {"headers": {"Authorization": secret}, "REMOTE_ADDR": "203.0.113.7"}
    assert _get(path, headers={"Authorization": secret}).status_code == 200
    assert _get(path, **far).status_code == 503
    monkeypatch.setattr(settings, "OPERATIONS_OPEN", True)
    assert _get(path, **far).status_code == 200


@pytest.mark.parametrize(
    ("path", "answered"),
    [
        ("/healthz", "application/json"),
        ("/readyz", "application/json"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
@pytest.mark.parametrize("accept", ["text/plain;version=0.0.4;q=0.3", "text/html", "*/*"])
def test_what_watches_the_server_is_answered_whatever_form_it_names(
    path: str, answered: str, accept: str, everything_up: None, db: None
) -> None:
    answer = _get(path, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, answered)


def test_metrics_count_requests_by_route_and_show_what_is_held_back(
    engine: Engine, program: Caller, topic: str
) -> None:
    txn_id = program.open()
    program.produce("a", "b", txn_id=txn_id)
    program.get("/transactions/0:12345")
    text = _get("/metrics").content.decode()
    assert 'txnconsole_txn_open{coordinator_id="0"} 1.0' in text
    broker = engine.topics.get(TopicName.parse(topic)).brokers[0]
    assert f'txnconsole_partitions_held_back{{broker="{broker}"}} 1.0' in text
    assert (
        "txnconsole_http_requests_total"
        '{method="GET",route="api/v1/transactions/<str:txn_id>",status="404"}'
    ) in text
    assert "0:12345" not in text


@pytest.mark.waits
def test_metrics_answer_while_a_database_is_gone(
    engine: Engine, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from txnconsole.enginedb import wiring

    monkeypatch.setattr(settings, "DATABASE_URL", "host=/nonexistent dbname=x")
    wiring.close()
    answer = _get("/metrics")
    wiring.close()
    assert answer.status_code == 200
    assert "txnconsole_http_requests_total" in answer.content.decode()

"""Every read while one of two brokers refuses connections: what is known is told, and what is
missing is named; only what that broker alone can tell is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine import Engine
from engine.model.topic_name import PartitionName
from tests.api.conftest import TOPIC, Caller
from tests.api.operations import REQUESTS, request, world
from tests.engine.support import unreachable
from tests.pulsar.operations import TABLE, status

__all__ = ["world"]

_SUBSCRIPTION = f"/topics/{TOPIC}/subscriptions/s"


@pytest.fixture
def own(world: Caller, as_role: Callable[..., Caller]) -> str:
    """An open transaction with messages in both partitions and acknowledgements of both."""
    txn_id = world.open()
    for number in (0, 1):
        path = f"/topics/{TOPIC}/partitions/{number}/messages"
        assert world.post(path, {"messages": [{"payload": "plain"}]}).status == 201
        body = {"txn_id": txn_id, "messages": [{"payload": "in it"}]}
        assert world.post(path, body).status == 201
    taken = world.post(f"{_SUBSCRIPTION}/receive", {"consumer": "d"}).json["messages"]
    ids = [each["message_id"] for each in taken]
    assert {each["partition"] for each in taken} == {0}  # 1 begins with an orphan's messages.
    body = {"consumer": "d", "message_ids": ids, "txn_id": txn_id}
    assert world.post(f"{_SUBSCRIPTION}/ack", body).status == 200
    return txn_id


@pytest.fixture
def down(engine: Engine, own: str) -> Iterator[str]:
    """The broker of partition 1, which cannot be reached."""
    broker = engine.log.locate(PartitionName.parse(f"{TOPIC}:1")).database.name
    with unreachable(engine, broker):
        yield broker


def test_no_read_that_another_broker_can_answer_is_refused(
    world: Caller, own: str, down: str
) -> None:
    reads = [name for name, (method, _, _) in REQUESTS.items() if method == "GET"]
    assert {name: request(world, name, own) for name in reads} == dict.fromkeys(reads, 200)
    pulsar = [name for name, (method, _, _) in TABLE.items() if method == "GET"]
    assert {name: status(world, name, own) for name in pulsar} == dict.fromkeys(pulsar, 200)


def test_a_request_waits_once_for_the_broker_whatever_parts_its_answer_has(
    world: Caller, engine: Engine, own: str, down: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = [name for name, (method, _, _) in REQUESTS.items() if method == "GET"]
    pool = engine._brokers.get(down)._connections.pool
    connect = pool.getconn
    waits: list[str] = []
    for name in reads:

        def counted(*arguments: Any, of: str = name, **named: Any) -> Any:
            waits.append(of)
            return connect(*arguments, **named)

        monkeypatch.setattr(pool, "getconn", counted)
        request(world, name, own)
    assert {name: waits.count(name) for name in waits} == dict.fromkeys(waits, 1)
    assert {"getTransactionParticipants", "getTransactionDocument"} <= set(waits)


def test_a_request_that_waits_on_purpose_asks_again_and_waits_for_the_broker_once(
    world: Caller, engine: Engine, down: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = engine._brokers.get(down)._connections.pool
    connect = pool.getconn
    mine = threading.get_ident()
    patience: list[float | None] = []

    def counted(timeout: float | None = None) -> Any:
        if threading.get_ident() == mine:
            patience.append(timeout)
        return connect(timeout)

    monkeypatch.setattr(pool, "getconn", counted)
    body = {"consumer": "d", "wait_ms": 500}
    assert world.post(f"{_SUBSCRIPTION}/receive", body).json == {"messages": []}
    assert len(patience) > 1
    assert patience[1:] == [0.1] * len(patience[1:])


def test_a_partition_of_the_broker_is_refused_as_unavailable(world: Caller, down: str) -> None:
    for path in ("", "/messages", "/blockers", "/aborted-index", "/history", "/rehearsal"):
        answer = world.get(f"/topics/{TOPIC}/partitions/1{path}")
        assert answer.is_problem(503, "PartitionUnavailable")
        assert answer.headers["Retry-After"] == "1"


def test_a_subscription_names_the_partition_that_is_missing(world: Caller, down: str) -> None:
    found = world.get(_SUBSCRIPTION).json
    assert [each["partition"] for each in found["partitions"]] == [0]
    [missing] = found["unavailable"]
    assert missing["partition"] == f"{TOPIC}:1"
    assert missing["detail"]


def test_a_subscription_at_home_on_the_broker_is_known_by_another(
    world: Caller, engine: Engine, own: str
) -> None:
    home = engine.log.locate(PartitionName.parse(f"{TOPIC}:0")).database.name
    with unreachable(engine, home):
        found = world.get(_SUBSCRIPTION).json
        assert [each["partition"] for each in found["partitions"]] == [1]
        assert [each["partition"] for each in found["unavailable"]] == [f"{TOPIC}:0"]
        answer = world.get(f"/topics/{TOPIC}/subscriptions/unknown")
        assert answer.is_problem(503, "PartitionUnavailable")


@pytest.mark.parametrize("action", ["abort", "commit", "expire"])
def test_the_impact_is_told_where_it_can_be(
    world: Caller, own: str, down: str, action: str
) -> None:
    found = world.get(f"/transactions/{own}/impact?action={action}").json
    assert [each["partition"] for each in found["partitions"]] == [f"{TOPIC}:0"]
    assert [each["subscription"] for each in found["subscriptions"]] == ["s"]
    assert [each["broker"] for each in found["unavailable"]] == [down]


def test_a_transaction_names_the_error_of_the_part_that_is_missing(
    world: Caller, own: str, down: str
) -> None:
    parts = {
        each["partition"]: each for each in world.get(f"/transactions/{own}").json["partitions"]
    }
    assert parts[f"{TOPIC}:0"]["messages"] == 1
    assert parts[f"{TOPIC}:1"]["messages"] is None
    assert parts[f"{TOPIC}:1"]["last_error"]


def test_lists_name_what_they_lack(world: Caller, down: str) -> None:
    partitions = world.get(f"/topics/{TOPIC}/partitions").json
    assert [each["partition"] for each in partitions["unavailable"]] == [f"{TOPIC}:1"]
    subscriptions = world.get(f"/topics/{TOPIC}/subscriptions").json
    assert [each["broker"] for each in subscriptions["unavailable"]] == [down]
    assert down in world.get("/hanging-transactions").json["unavailable"]

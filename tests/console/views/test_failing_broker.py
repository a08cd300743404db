"""One broker that cannot be reached fails its own regions and no page."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError
from django.test import Client
from psycopg_pool import ConnectionPool

from engine import Engine
from engine.log.partition_log import PartitionLogs
from engine.model.errors import PartitionUnavailable
from engine.model.partition import PartitionStatus
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName
from engine.model.txn_status import TxnStatus
from engine.postgres import deadlines
from tests.console.browser.pages import PAGES
from tests.console.conftest import TOPIC, Orders, signed_in
from tests.engine.support import unreachable

DOWN = "broker-2 does not answer."


@pytest.fixture
def broken(engine: Engine, orders: Orders, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """Partition 1's broker is down: whoever asks for it gets an error."""
    real = PartitionLogs.status

    def status(self: PartitionLogs, partition: PartitionName) -> PartitionStatus:
        if partition.number == 1:
            raise PartitionUnavailable(DOWN)
        return real(self, partition)

    monkeypatch.setattr(PartitionLogs, "status", status)
    return orders


def test_the_log_of_an_unreachable_partition_is_503(broken: Orders, viewer: Client) -> None:
    answer = viewer.get(f"/topics/{TOPIC}/partitions/1/log")
    assert answer.status_code == 503
    assert DOWN in answer.content.decode()
    assert "Try again" in answer.content.decode()


def test_a_page_that_took_all_of_its_time_says_so_and_is_shown(
    orders: Orders, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status(self: PartitionLogs, partition: PartitionName) -> PartitionStatus:
        deadlines._deadline.set(0.0)  # The past: nothing more may be asked for this request.
        raise PartitionUnavailable(DOWN)

    monkeypatch.setattr(PartitionLogs, "status", status)
    answer = viewer.get(f"/topics/{TOPIC}/partitions/1/log")
    assert answer.status_code == 503
    assert DOWN in answer.content.decode()


def test_a_script_is_told_the_reason_and_gets_no_page(broken: Orders, viewer: Client) -> None:
    address = f"/topics/{TOPIC}/partitions/1"
    region = viewer.get(address, headers={"HX-Request": "true"})
    assert region.status_code == 503
    assert f"<span data-says>{DOWN}</span>" in region.content.decode()
    assert "<html" not in region.content.decode()
    window = viewer.get(f"{address}/log/window", headers={"Accept": "application/json"})
    assert window.status_code == 503
    assert window.json() == {"code": "PartitionUnavailable", "message": DOWN}


@pytest.mark.parametrize("address", ["/", "/login", "/topics"])
def test_without_the_coordinators_database_the_console_says_so(
    viewer: Client, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Nobody's session can be looked up then, so that there is no page around it."""
    viewer.raise_request_exception = False

    def no_session(*_: object) -> None:
        raise OperationalError("the database system is shutting down")

    monkeypatch.setattr(SessionStore, "load", no_session)
    answer = viewer.get(address)
    assert answer.status_code == 503
    assert "The coordinators' database cannot be reached" in answer.content.decode()
    window = viewer.get(address, headers={"Accept": "application/json"})
    assert window.status_code == 503
    assert window.json()["message"] == "The coordinators' database cannot be reached; try again."
    region = viewer.get(address, headers={"HX-Request": "true"})
    assert region.status_code == 503
    assert "database cannot be reached; try again.</span>" in region.content.decode()


def test_a_defect_is_no_absence(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer.raise_request_exception = False

    def defect(*_: object) -> None:
        raise LookupError("of ours")

    monkeypatch.setattr(SessionStore, "load", defect)
    answer = viewer.get("/")
    assert answer.status_code == 500
    assert "Something failed here" in answer.content.decode()


def test_a_script_is_told_which_permission_is_missing(db: None) -> None:
    producer = signed_in("producer")
    answer = producer.get("/audit", headers={"Accept": "application/json"})
    assert answer.status_code == 403
    assert answer.json()["message"] == "This needs the permission audit.read."


def test_the_overview_names_the_broker(
    orders: Orders, viewer: Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.inspect.blockers import HeldBack
    from engine.inspect.inspector import Inspector

    real = Inspector.held_back

    def held_back(self: Inspector, limit: int = 10) -> HeldBack:
        return HeldBack(
            partitions=real(self, limit).partitions, unavailable={"broker-2": "No answer."}
        )

    monkeypatch.setattr(Inspector, "held_back", held_back)
    text = viewer.get("/").content.decode()
    assert "broker-2 cannot be reached" in text
    assert str(orders.partition) in text
    assert "Nothing holds readers back" not in text


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("/", ("<b>No partition is held back</b>", "none for a minute")),
        ("/held-back", ("<b>No partition is held back</b>",)),
        ("/transactions/hanging", ("<b>Nothing hangs</b>",)),
        ("/snapshots", ("<b>Nothing to snapshot</b>", "There are no partitions yet")),
    ],
)
def test_nothing_is_said_of_brokers_that_could_not_be_looked_at(
    engine: Engine, viewer: Client, path: str, claims: tuple[str, ...]
) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    first, second = engine.topics.get(TOPIC).brokers
    with unreachable(engine, first), unreachable(engine, second):
        shown = viewer.get(path).content.decode()
    assert first in shown
    assert not [claim for claim in claims if claim in shown]


def test_the_pages_of_transactions_say_which_broker_they_could_not_ask(
    orders: Orders, viewer: Client, engine: Engine
) -> None:
    away = engine.topics.get(TOPIC).brokers[0]
    with unreachable(engine, away):
        for part in ("", "/timeline", "/lineage"):
            text = viewer.get(f"/transactions/{orders.open}{part}").content.decode()
            assert f"<b>{away} cannot be asked</b>" in text, part
            assert f"</b>{away} cannot serve this now" not in text, part
        text = viewer.get(f"/transactions/{orders.open}/messages").content.decode()
        assert f"cannot be read now: {away} cannot serve this now" in text
        assert "sidecar" not in text
        text = viewer.get("/transactions/hanging").content.decode()
        assert f"<b>{away} could not be looked at</b>" in text


@pytest.mark.parametrize("number", [0, 1])
def test_a_subscription_is_shown_as_far_as_its_brokers_answer(
    orders: Orders, viewer: Client, engine: Engine, number: int
) -> None:
    away, path = engine.topics.get(TOPIC).brokers[number], f"/subscriptions/{orders.subscription}"
    assert viewer.get(path).status_code == 200  # Each broker has its record now.
    with unreachable(engine, away):
        answer = viewer.get(path)
        row = viewer.get("/subscriptions").content.decode()
    text = answer.content.decode()
    for told in (text, row):  # Nobody reads there, however well the other one does.
        assert f"{away} cannot be reached; its partitions are left out." in told
    assert answer.status_code == 200
    assert f"<b>{away} cannot be reached</b>" in text
    assert (f'id="cursor-{1 - number}"' in text, f'id="cursor-{number}"' in text) == (True, False)


def test_who_deletes_a_topic_is_told_what_is_not_counted(
    orders: Orders, engine: Engine, db: None
) -> None:
    away = engine.topics.get(TOPIC).brokers[0]
    with unreachable(engine, away):
        text = signed_in("admin").get(f"/topics/{TOPIC}/delete").content.decode()
    assert f"{away} cannot be asked: " in text
    assert f"{away} cannot serve this now" not in text
    assert "What it has of the topic is not counted here." in text


def test_who_aborts_is_told_that_it_is_decided_all_the_same(
    orders: Orders, engine: Engine, db: None
) -> None:
    away, operator = engine.topics.get(TOPIC).brokers[0], signed_in("operator")
    path = f"/transactions/{orders.open}/abort"
    with unreachable(engine, away):
        assert "An abort is decided all the same" in operator.get(path).content.decode()
        operator.post(path, {"reason": "left behind by a dead producer"})
    assert engine.coordinator.get(orders.open).status is TxnStatus.ABORTING


@pytest.mark.deep
@pytest.mark.parametrize("number", [0, 1])
def test_a_page_waits_once_for_a_broker_that_is_away_and_none_fails(
    orders: Orders, engine: Engine, db: None, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Each of a page's parts asks the broker; the first waits until it is known to be away."""
    names = {"topic": TOPIC, "txn": orders.open, "subscription": orders.subscription.name}
    away, admin = engine.topics.get(TOPIC).brokers[number], signed_in("admin")
    wrong = {}
    for row in PAGES:
        if row.name == "settings-user":
            continue  # Of a user that the tests of the browser make.
        with unreachable(engine, away):
            waited = counted(monkeypatch, engine._brokers.get(away)._connections.pool)
            answer = admin.get(row.address.format(**names))
        if answer.status_code not in {row.status, 503} or len(waited) > 1:
            wrong[row.name] = (answer.status_code, len(waited))
        if answer.status_code == 503:
            assert away in answer.content.decode()
    assert wrong == {}


def counted(monkeypatch: pytest.MonkeyPatch, pool: ConnectionPool[Any]) -> list[object]:
    """Grows whenever somebody asks the pool for a connection."""
    waits: list[object] = []
    connect = pool.getconn
    monkeypatch.setattr(pool, "getconn", lambda *a, **k: (waits.append(a), connect(*a, **k))[1])
    return waits

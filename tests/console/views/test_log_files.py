"""A range of a log as a file, and a message that is sent to try a partition."""

from __future__ import annotations

import base64
import csv
import io
import json

import pytest
from django.test import Client

from engine import Engine
from engine.model.errors import PartitionUnavailable
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import TransactionFilter
from engine.model.txn_status import TxnStatus
from tests.console.conftest import SECRET, TOPIC, Orders, file_of, signed_in
from txnconsole.audit.models import AuditEntry
from txnconsole.console.views import log_export

HERE = f"/topics/{TOPIC}/partitions/0/log"
REASON = "does the new consumer see it?"


@pytest.fixture
def admin(db: None) -> Client:
    return signed_in("admin")


def test_a_range_has_every_entry_with_what_a_reader_gets(
    orders: Orders, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_export, "_STEP", 3)
    lines = file_of(operator, f"{HERE}/export.json?from=1&to=6").splitlines()
    told = [json.loads(line) for line in lines]
    assert [one["offset"] for one in told] == [1, 2, 3, 4, 5, 6]
    assert [one["kind"] for one in told] == [
        "DATA", "TXN_COMMIT", "DATA", "TXN_ABORT", "DATA", "DATA",
    ]  # fmt: skip
    assert [one["visibility"] for one in told] == [
        "visible", "marker", "aborted", "marker", "open", "open",
    ]  # fmt: skip
    assert told[0]["txn_id"] == str(orders.committed)
    assert base64.b64decode(told[4]["payload_base64"]).decode() == SECRET
    rows = list(csv.DictReader(io.StringIO(file_of(operator, f"{HERE}/export.csv?from=0&to=99"))))
    assert [int(row["offset"]) for row in rows] == list(range(8))
    assert rows[5]["key"] == f"k-{SECRET}"


def test_a_viewer_gets_no_payloads(orders: Orders, viewer: Client) -> None:
    text = file_of(viewer, f"{HERE}/export.json?from=0&to=7")
    assert {json.loads(line)["payload_base64"] for line in text.splitlines()} == {None}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("from=5&to=2", "ends before it begins"),
        ("from=x&to=2", "in whole numbers"),
        ("to=2", "in whole numbers"),
    ],
)
def test_a_range_that_is_none_is_refused(
    orders: Orders, viewer: Client, query: str, told: str
) -> None:
    answer = viewer.get(f"{HERE}/export.csv?{query}")
    assert answer.status_code == 400
    assert told in answer.content.decode()
    assert viewer.get(f"{HERE}/export.xls?from=0&to=1").status_code == 404


def test_a_range_that_is_too_long_is_refused(
    orders: Orders, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_export, "MAX_OFFSETS", 4)
    assert viewer.get(f"{HERE}/export.csv?from=0&to=99").status_code == 400
    assert len(file_of(viewer, f"{HERE}/export.csv?from=4&to=99").splitlines()) == 5


def test_a_test_message_asks_first_and_is_recorded_without_what_it_carries(
    orders: Orders, engine: Engine, admin: Client
) -> None:
    form = admin.get(f"{HERE}/send", headers={"HX-Request": "true"}).content.decode()
    assert f"Readers get it once {orders.open} has ended" in form
    given = {"payload": " try ", "key": "k", "end": "", "reason": REASON}
    assert admin.post(f"{HERE}/send", given | {"reason": "x"}).status_code == 422
    answer = admin.post(f"{HERE}/send", given)
    assert answer.status_code == 200
    assert answer["HX-Trigger"] == "changed"
    assert "offset 8." in answer.content.decode()
    [found] = engine.log.browse(orders.partition, 8, 1).messages
    assert (found.payload, found.key, found.txn_id) == (b" try ", "k", None)
    entry = AuditEntry.objects.latest("sequence")
    assert (entry.action, entry.object, entry.reason) == (
        "message.test", f"partition:{orders.partition}", REASON,
    )  # fmt: skip
    assert "try" not in str(entry.after)


@pytest.mark.parametrize(
    ("end", "status"), [("COMMIT", TxnStatus.COMMITTING), ("ABORT", TxnStatus.ABORTING)]
)
def test_a_test_message_may_have_a_transaction_that_ends_at_once(
    orders: Orders, engine: Engine, admin: Client, end: str, status: TxnStatus
) -> None:
    other = PartitionName(orders.partition.topic, 1)
    address = f"/topics/{TOPIC}/partitions/1/log/send"
    given = {"payload": "try", "end": end, "reason": REASON}
    assert admin.post(address, given).status_code == 200
    [found] = engine.log.browse(other, 0, 1).messages
    assert found.txn_id is not None
    decided = engine.coordinator.get(found.txn_id)
    assert (decided.status, decided.owner, decided.client) == (status, "a-admin", "console")


def test_a_message_that_is_refused_leaves_no_open_transaction(
    orders: Orders, engine: Engine, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PartitionUnavailable("The broker is away.")

    monkeypatch.setattr(type(engine), "produce", fail)
    given = {"payload": "try", "end": "COMMIT", "reason": REASON}
    answer = admin.post(f"{HERE}/send", given)
    assert answer.status_code == 503
    assert "The broker is away." in answer.content.decode()
    assert AuditEntry.objects.latest("sequence").result == "PartitionUnavailable"
    [own] = engine.coordinator.list(TransactionFilter(owner="a-admin"), limit=2).items
    assert own.status is TxnStatus.ABORTING


def test_of_a_sidecar_partition_the_answer_says_where_the_message_waits(
    engine: Engine, admin: Client
) -> None:
    name = TopicName("public", "default", "aside")
    engine.topics.create(name, TopicSettings(buffer=BufferKind.SIDECAR))
    given = {"payload": "try", "end": "COMMIT", "reason": REASON}
    text = admin.post(f"/topics/{name}/partitions/0/log/send", given).content.decode()
    assert "in the sidecar log until it has its place here" in text
    assert engine.log.status(PartitionName(name, 0)).partition.topic == name


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_others_are_told_what_they_lack(orders: Orders, db: None, role: str) -> None:
    client = signed_in(role)
    assert 'needs <span class="mono">message.produce</span>' in client.get(HERE).content.decode()
    assert client.get(f"{HERE}/send").status_code == 403
    assert client.post(f"{HERE}/send", {"payload": "x"}).status_code == 403


def test_the_engines_own_topics_take_no_test_message(
    orders: Orders, engine: Engine, admin: Client
) -> None:
    engine.partitions.snapshot(orders.partition)
    [own] = [one for one in engine.topics.list(include_system=True).items if one.name.is_system][:1]
    page = f"/topics/{own.name}/partitions/0/log"
    assert "Send a test message" not in admin.get(page).content.decode()
    assert admin.post(f"{page}/send", {"payload": "x", "reason": REASON}).status_code == 400

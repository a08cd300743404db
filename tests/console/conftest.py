"""Signed-in clients, and a topic with every state that a page can show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from engine import Engine
from engine.model.message import NewMessage
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.console.questions import Questions

TOPIC = TopicName("public", "default", "orders")
SECRET = "<b>card 4111</b>"


@dataclass(frozen=True)
class Orders:
    """Partition 0 holds, in this order: plain 0, committed 1 and its marker 2, aborted 3 and its
    marker 4, open 5 and 6, plain 7. Message 0 is acknowledged, 1 pending in ``open``."""

    partition: PartitionName
    subscription: SubscriptionName
    committed: TxnID
    aborted: TxnID
    open: TxnID

    @property
    def log(self) -> str:
        return f"/topics/{TOPIC}/partitions/0/log"


@pytest.fixture
def orders(engine: Engine) -> Orders:
    """Every kind of entry in one partition, and a subscription."""
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    partition = PartitionName(TOPIC, 0)
    subscription = SubscriptionName(TOPIC, "billing")
    engine.subscriptions.create(subscription, SubscriptionSettings())
    produce(engine, partition, "plain")
    committed = begin(engine)
    produce(engine, partition, "committed", txn_id=committed)
    finish(engine, committed, TxnAction.COMMIT)
    aborted = begin(engine)
    produce(engine, partition, "aborted", txn_id=aborted)
    finish(engine, aborted, TxnAction.ABORT)
    still_open = begin(engine, client="pod-7")
    produce(engine, partition, SECRET, "second", txn_id=still_open)
    produce(engine, partition, "late")
    first, second = engine.receive(subscription, "c1", max_messages=2)
    engine.acknowledge(subscription, "c1", [first.message_id])
    engine.acknowledge(subscription, "c1", [second.message_id], txn_id=still_open)
    return Orders(partition, subscription, committed, aborted, still_open)


@pytest.fixture
def viewer(db: None) -> Client:
    """A browser in which a viewer is signed in."""
    return signed_in("viewer")


@pytest.fixture
def operator(db: None) -> Client:
    """A browser in which an operator is signed in."""
    return signed_in("operator")


def signed_in(role: str, *, name: str = "") -> Client:
    """A client whose user, ``a-<role>`` unless it has a name, has the role."""
    user = User.objects.create_user(name or f"a-{role}", password="correct horse")
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    client = Client()
    client.force_login(user)
    return client


def file_of(client: Client, address: str) -> str:
    """The text of a file, which is sent while it is read."""
    answer: Any = client.get(address)
    assert answer.status_code == 200
    form = address.partition("?")[0].rpartition(".")[2]
    assert answer["Content-Disposition"].endswith(f'.{form}"')
    return b"".join(answer.streaming_content).decode()


def words(client: Client, address: str, status: int = 200) -> str:
    """A page's text, runs of white space made one."""
    answer = client.get(address)
    assert answer.status_code == status, answer.content
    html = answer.content.decode().replace("<wbr>", "")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def fault_beside(answer: Any, name: str) -> str:
    """What is said to be wrong with a field, to whoever does not see what stands beside it too."""
    text = answer.content.decode()
    assert re.search(rf'aria-describedby="[^"]*\bid_{name}_error"', text), text
    [told] = re.findall(rf'id="id_{name}_error"[^>]*>([^<]*)<', text)
    return unescape(told)


def begin(engine: Engine, *, client: str = "", timeout_ms: int = 60_000) -> TxnID:
    return engine.coordinator.open(
        owner="alice", tc_id=3, client=client, timeout_ms=timeout_ms
    ).txn_id


def produce(
    engine: Engine, partition: PartitionName, *payloads: str, txn_id: TxnID | None = None
) -> None:
    """Append one batch whose messages have the key ``k-<payload>``."""
    batch = [NewMessage(payload=text.encode(), key=f"k-{text}") for text in payloads]
    engine.produce(partition, batch, txn_id=txn_id)


def finish(engine: Engine, txn_id: TxnID, action: TxnAction) -> None:
    """End a transaction and carry it out."""
    engine.coordinator.end(txn_id, action)
    engine.finalizer.finalize(txn_id.tc_id)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Questions:
    """What is asked of the databases from now on."""
    return Questions(monkeypatch)

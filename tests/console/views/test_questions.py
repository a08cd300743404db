"""What pages ask of databases: design/quality.md allows each twelve questions, at any size, among
them what the frame around a page asks about its reader."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from engine import Engine
from engine.model.subscription import AckType, SubscriptionSettings, SubscriptionType
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from tests.console.browser.pages import PAGES, PARTS
from tests.console.conftest import TOPIC, Orders, begin, produce, signed_in
from tests.console.questions import Questions
from txnconsole.alerts.kinds import Kind
from txnconsole.alerts.models import Alert, Channel, Evaluation, Notice, Rule, Silence
from txnconsole.alerts.states import AlertState
from txnconsole.enginedb.clock import database_now

MOST = 12
SIDECAR = TopicName("public", "default", "aside")
OTHERS = {
    "explain, a subscription": "/explain?partition={topic}:0&message=5&subscription={subscription}",
    "explain, a subscription, uncommitted": "/explain?partition={topic}:0&message=5"
    "&subscription={subscription}&isolation=read_uncommitted",
    "log at an offset": "/topics/{topic}/partitions/0/log?at=3",
    "log at a moment": "/topics/{topic}/partitions/0/log?at=2020-01-01",
    "log, a place that is none": "/topics/{topic}/partitions/0/log?at=nowhere",
    "log, nothing in it": f"/topics/{SIDECAR}/partitions/1/log",
    "topics, narrowed": "/topics?q=order",
    "subscriptions, narrowed": "/subscriptions?q=billing",
    "snapshots, narrowed": "/snapshots?q=orders:0",
    "invariants, narrowed": "/invariants?q=orders:0",
    "search, a partition": "/search/suggest?q=more:0",
    "aborted, checked": "/topics/{topic}/partitions/0/aborted?verify=0",
    "aborted, a sidecar": f"/topics/{SIDECAR}/partitions/0/aborted?start=0&end=9",
    "aborted, a sidecar, checked": f"/topics/{SIDECAR}/partitions/0/aborted?verify=0",
    "an alert": "/alerts/{alert}",
    "a channel": "/alerts/channels/{channel}",
    "abort, five partitions": "/transactions/{wide}/abort",
}


@pytest.mark.deep
def test_no_page_asks_more_than_twelve(
    orders: Orders, engine: Engine, db: None, questions: Questions
) -> None:
    names = {
        "topic": str(TOPIC),
        "subscription": "billing",
        "txn": str(orders.open),
        "wide": str(_wide(engine)),
    }
    _more_of_everything(engine, orders)
    admin = signed_in("admin")
    User.objects.create_user("flights-feed")  # The one whose page is in the table of pages.
    names |= _alerts()
    pages = {row.name: row.address for row in PAGES if row.status == 200} | PARTS | OTHERS
    for name, address in pages.items():
        script = {"HX-Request": "true"} if "?part=" in address else {}
        for attempt in range(2):  # What a process remembers, it asks once.
            before = len(questions.asked)
            answer = admin.get(address.format(**names), headers=script)
            assert answer.status_code in (200, 302, 400), (name, answer.content)
            asked = questions.asked[before:]
            if len(asked) <= MOST:
                break
            assert attempt == 0, "\n\n".join([f"{name} asks {len(asked)}:", *asked])


def _alerts() -> dict[str, str]:
    """Several of everything about alerts; answers which one is in the table of pages."""
    now = database_now()
    rules = [
        Rule.objects.create(
            name=f"{kind} {number}", kind=kind, threshold=0, severity="info", clear_ms=0
        )
        for kind in Kind
        for number in range(2)
    ]
    Evaluation.objects.update_or_create(pk=1, defaults={"at": now - timedelta(hours=1)})
    written = {"created_at": now, "changed_at": now, "changed_by": "ann"}
    for number, rule in enumerate(rules):
        silence = {"rule": rule, "reason": "work", "created_by": "ann", "created_at": now}
        for days in (1, -1):
            until = now + timedelta(days=days)
            Silence.objects.create(objects_matching=f"{number}", until=until, **silence)
        channel = Channel.objects.create(
            name=f"{number}", kind="webhook", url="https://a.example/", **written
        )
        for state in AlertState:
            alert = Alert.objects.create(
                rule=rule,
                rule_name=rule.name,
                kind=rule.kind,
                severity=rule.severity,
                threshold=1,
                object=f"{state} {number}",
                state=state,
                value=2,
                peak=2,
                samples=[1, 2],
                pending_since=now,
                fired_at=None if state == AlertState.PENDING else now,
                resolved_at=now if state == AlertState.RESOLVED else None,
                measured_at=now,
            )
            Notice.objects.create(kind="firing", value=2, at=now, alert=alert, channel=channel)
    return {"alert": str(alert.pk), "channel": str(channel.pk)}


def _wide(engine: Engine) -> TxnID:
    """A transaction in five partitions of two brokers, with messages and whole prefixes
    acknowledged."""
    topic = TopicName("public", "default", "wide")
    name = SubscriptionName(topic, "s")
    engine.topics.create(topic, TopicSettings(partitions=5))
    engine.subscriptions.create(name, SubscriptionSettings(type=SubscriptionType.EXCLUSIVE))
    txn_id = begin(engine)
    for number in range(5):
        produce(engine, PartitionName(topic, number), "plain")
        produce(engine, PartitionName(topic, number), "undecided", txn_id=txn_id)
    received = engine.receive(name, "c1", max_messages=5)
    assert len(received) == 5
    for one in received:
        engine.acknowledge(name, "c1", [one.message_id], ack_type=AckType.CUMULATIVE, txn_id=txn_id)
    return txn_id


def _more_of_everything(engine: Engine, orders: Orders) -> None:
    """What a list shows costs no question of its own."""
    for number in range(6):
        topic = TopicName("public", "default", f"more-{number}")
        engine.topics.create(topic, TopicSettings(partitions=2))
        engine.subscriptions.create(SubscriptionName(topic, "s"), SubscriptionSettings())
        name = SubscriptionName(TOPIC, f"more-{number}")
        engine.subscriptions.create(name, SubscriptionSettings())
        produce(engine, PartitionName(topic, 0), "undecided", txn_id=begin(engine))
    engine.topics.create(SIDECAR, TopicSettings(partitions=2, buffer=BufferKind.SIDECAR))
    produce(engine, PartitionName(SIDECAR, 0), "undecided", txn_id=begin(engine))
    produce(engine, PartitionName(TOPIC, 1), "undecided", txn_id=orders.open)

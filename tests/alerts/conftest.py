"""Alerts on a real engine, evaluated as a worker evaluates them; time passes as a test says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F

from engine import Engine
from engine.model.message import NewMessage
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from txnconsole.alerts.evaluating import evaluate
from txnconsole.alerts.kinds import KINDS, Kind
from txnconsole.alerts.models import Alert, Channel, Evaluation, Message, Notice, Rule, Silence
from txnconsole.enginedb.clock import database_now

TOPIC = TopicName("public", "default", "flights")
_TIMES = {
    Alert: ("pending_since", "fired_at", "clear_since", "notified_at", "measured_at"),
    Rule: ("measured_at",),
    Evaluation: ("at",),
    Silence: ("until",),
    Notice: ("at",),
    Message: ("next_attempt_at", "leased_until"),
}


def pass_time(seconds: float) -> None:
    """Let so much time pass for everything about alerts, by moving what is stored back."""
    span = timedelta(seconds=seconds)
    for model, names in _TIMES.items():
        model.objects.update(**{name: F(name) - span for name in names})  # type: ignore[attr-defined]


def rule_of(kind: Kind, **fields: Any) -> Rule:
    """The one rule that there is, of the kind."""
    Rule.objects.all().delete()
    terms = KINDS[kind]
    given = {"threshold": terms.threshold, "severity": terms.severity.value, "for_ms": 0}
    return Rule.objects.create(
        **({"name": terms.title, "kind": kind.value, "clear_ms": 0} | given | fields)
    )


def alert(number: int = 1, **fields: object) -> Alert:
    """One that fires."""
    now = database_now()
    given: dict[str, object] = {
        "rule_name": "Partition held back",
        "kind": "held_back",
        "severity": "warning",
        "threshold": 60_000,
        "object": f"partition:public/default/flights:{number}",
        "detail": "7 offsets behind 3:42",
        "state": "firing",
        "value": 61_000,
        "peak": 61_000,
        "pending_since": now,
        "fired_at": now,
        "measured_at": now,
    }
    return Alert.objects.create(**(given | fields))


def webhook(**fields: Any) -> Channel:
    given = {"name": "hook", "kind": "webhook", "url": "https://hooks.example/x", "secret": "s"}
    return Channel.objects.create(**(given | fields))


def look(engine: Engine, times: int = 1) -> int:
    """Evaluate so often, five seconds apart."""
    changed = 0
    for _ in range(times):
        changed = evaluate(engine)
        pass_time(5)
    return changed


def hold_back(engine: Engine, topic: TopicName = TOPIC) -> TxnID:
    """An open transaction that holds the topic's partition back."""
    engine.topics.create(topic, TopicSettings())
    txn_id = engine.coordinator.open(owner="alice", client="pod-7", tc_id=0).txn_id
    engine.produce(PartitionName(topic, 0), [NewMessage(payload=b"x")], txn_id=txn_id)
    return txn_id


def finish(engine: Engine, txn_id: TxnID) -> None:
    engine.coordinator.end(txn_id, TxnAction.ABORT)
    engine.finalizer.finalize(txn_id.tc_id)

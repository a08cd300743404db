"""Evaluations on the real engine: objects, states, notices, two workers, a worker that dies."""

from __future__ import annotations

import threading
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from engine import Engine
from engine.model.message import NewMessage
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.alerts.conftest import TOPIC, alert, finish, hold_back, look, pass_time, rule_of, webhook
from tests.engine.support import sql, unreachable
from tests.support.eventually import eventually
from txnconsole.alerts import evaluating, handling, notices, reading
from txnconsole.alerts.evaluating import evaluate
from txnconsole.alerts.kinds import KINDS, Kind
from txnconsole.alerts.measuring import Measured, Measurements
from txnconsole.alerts.models import Alert, Evaluation, Notice, Rule, Silence
from txnconsole.alerts.states import AlertState, NoticeKind
from txnconsole.audit.recording import Actor
from txnconsole.enginedb.clock import database_now

PARTITION = PartitionName(TOPIC, 0)

pytestmark = pytest.mark.django_db


def only() -> Alert:
    return Alert.objects.get()


def test_a_new_database_has_a_rule_of_each_kind_and_they_all_can_be_measured(
    engine: Engine, valkey_url: str
) -> None:
    Rule.objects.all().delete()
    Evaluation.objects.all().delete()
    import_module("txnconsole.alerts.migrations.0002_default_rules").add_defaults(apps, None)
    assert {rule.kind for rule in Rule.objects.all()} == {kind.value for kind in KINDS}
    before = Evaluation.objects.get().at
    assert evaluate(engine) == 0
    assert Evaluation.objects.get().at > before
    assert reading.firing(reading.standing()) == []


def test_a_database_of_before_gets_the_rule_of_a_new_kind_once(engine: Engine) -> None:
    migration = import_module("txnconsole.alerts.migrations.0003_dead_letters_stranded")
    Rule.objects.all().delete()
    for _ in range(2):
        migration.add_rule(apps, None)
    rule = Rule.objects.get()
    terms = KINDS[Kind.DEAD_LETTERS_STRANDED]
    assert (rule.kind, rule.name) == (Kind.DEAD_LETTERS_STRANDED, terms.title)
    assert (rule.threshold, rule.for_ms, rule.topics) == (0, 60_000, "*")


def test_an_alert_is_pending_then_firing_then_resolved_and_each_is_told_once(
    engine: Engine,
) -> None:
    rule_of(Kind.HELD_BACK, threshold=0, for_ms=10_000, clear_ms=10_000)
    webhook()
    txn_id = hold_back(engine)
    look(engine)
    assert (only().state, only().object) == (AlertState.PENDING, f"partition:{PARTITION}")
    assert reading.standing().firing == 0
    look(engine, 2)
    assert only().state == AlertState.FIRING
    [told] = reading.firing(reading.standing())
    assert (told.rule, told.detail) == ("Partition held back", f"1 offset behind {txn_id}")
    assert reading.standing().firing == 1
    look(engine, 3)
    finish(engine, txn_id)
    look(engine, 2)
    assert only().state == AlertState.FIRING
    assert look(engine, 2) in (0, 1)
    alert = only()
    assert alert.state == AlertState.RESOLVED
    assert alert.peak >= alert.value > 0
    assert len(alert.samples) == 6
    assert [notice.kind for notice in Notice.objects.all()] == ["firing", "resolved"]
    assert reading.firing(reading.standing()) == []


def test_however_many_alerts_come_to_the_same_at_once_it_takes_as_many_statements(
    engine: Engine,
) -> None:
    webhook()
    counts = []
    for partitions in (2, 12):
        topic = TopicName("public", "default", f"of-{partitions}")
        rule_of(Kind.HELD_BACK, threshold=0, topics=str(topic))
        engine.topics.create(topic, TopicSettings(partitions=partitions))
        txn_id = _hold_all_back(engine, topic, partitions)
        look(engine)
        fired = _statements(engine, AlertState.FIRING, partitions)
        finish(engine, txn_id)
        resolved = _statements(engine, AlertState.RESOLVED, partitions)
        Rule.objects.update(for_ms=3_600_000)
        txn_id = _hold_all_back(engine, topic, partitions)
        look(engine)
        assert Alert.objects.filter(state=AlertState.PENDING).count() == partitions
        finish(engine, txn_id)
        dropped = _statements(engine, AlertState.PENDING, 0)
        counts.append((fired, resolved, dropped))
    assert counts[0] == counts[1]


def _hold_all_back(engine: Engine, topic: TopicName, partitions: int) -> TxnID:
    txn_id = engine.coordinator.open(owner="alice", tc_id=0).txn_id
    for number in range(partitions):
        engine.produce(PartitionName(topic, number), [NewMessage(payload=b"x")], txn_id=txn_id)
    return txn_id


def _statements(engine: Engine, state: AlertState, number: int) -> int:
    """How many an evaluation takes after which so many of the topic's alerts have the state."""
    with CaptureQueriesContext(connection) as asked:
        look(engine)
    mine = Alert.objects.filter(state=state, rule=Rule.objects.get())
    assert mine.count() == number
    return len(asked)


def test_of_what_is_about_to_fire_the_first_is_listed_first(engine: Engine) -> None:
    """Also when it has been pending for less long than others."""
    late = rule_of(Kind.HELD_BACK, threshold=0, for_ms=3_600_000)
    hold_back(engine)
    look(engine)
    Rule.objects.create(
        name="soon", kind=late.kind, severity=late.severity, threshold=0, for_ms=60_000
    )
    look(engine)
    listed, later = reading.about_to_fire(1)
    assert ([alert.rule_name for alert in listed], later) == (["soon"], 1)
    listed, later = reading.about_to_fire(2)
    assert ([alert.rule_name for alert in listed], later) == (["soon", late.name], 0)


def test_what_fires_again_is_another_alert(engine: Engine) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    finish_first = hold_back(engine)
    look(engine, 2)
    finish(engine, finish_first)
    look(engine, 2)
    again = engine.coordinator.open(owner="alice", tc_id=0).txn_id
    engine.produce(PARTITION, [NewMessage(payload=b"x")], txn_id=again)
    look(engine, 2)
    states = [alert.state for alert in Alert.objects.order_by("id")]
    assert states == [AlertState.RESOLVED, AlertState.FIRING]


def test_a_rule_of_some_topics_does_not_see_others(engine: Engine) -> None:
    rule_of(Kind.HELD_BACK, threshold=0, topics="public/default/fl*")
    hold_back(engine)
    hold_back(engine, TopicName("public", "default", "orders"))
    look(engine, 2)
    assert only().object == f"partition:{PARTITION}"


def test_an_overdue_transaction_is_told_with_its_owner(engine: Engine) -> None:
    rule_of(Kind.OVERDUE)
    txn_id = hold_back(engine)
    sql(
        engine.database,
        "UPDATE coordinator.transaction SET deadline = clock_timestamp() - interval '11 s'",
    )
    look(engine, 2)
    alert = only()
    assert (alert.object, alert.detail) == (f"transaction:{txn_id}", "of alice (pod-7)")
    assert alert.value > 11_000
    finish(engine, txn_id)
    look(engine, 2)
    assert only().state == AlertState.RESOLVED


def test_an_ending_that_nobody_carries_out_is_stuck(engine: Engine) -> None:
    rule_of(Kind.STUCK_ENDING, threshold=0)
    txn_id = hold_back(engine)
    engine.coordinator.end(txn_id, TxnAction.COMMIT)
    look(engine, 2)
    assert only().detail == "COMMITTING, of alice (pod-7)"
    engine.finalizer.finalize(0)
    look(engine, 2)
    assert only().state == AlertState.RESOLVED


def test_a_blocker_near_its_timeout_is_told_by_its_partition(engine: Engine) -> None:
    rule_of(Kind.BLOCKER_TIMEOUT, threshold=0)
    txn_id = hold_back(engine)
    look(engine, 2)
    assert only().object == f"partition:{PARTITION}"
    assert only().detail.startswith(str(txn_id))
    assert 0 < only().value < 10


def test_the_abort_ratio_needs_twenty_ends(engine: Engine) -> None:
    rule_of(Kind.ABORT_RATIO)
    txn_ids = [engine.coordinator.open(owner="a", tc_id=0).txn_id for _ in range(20)]
    for number, txn_id in enumerate(txn_ids[:19]):
        engine.coordinator.end(txn_id, TxnAction.ABORT if number % 2 else TxnAction.COMMIT)
    engine.finalizer.finalize(0)
    look(engine, 2)
    assert not Alert.objects.exists()
    engine.coordinator.end(txn_ids[19], TxnAction.ABORT)
    engine.finalizer.finalize(0)
    look(engine, 2)
    assert (only().object, only().value) == ("transactions", 50.0)
    assert only().detail == "10 of 20 that ended"


def test_a_late_snapshot_is_told(engine: Engine) -> None:
    rule_of(Kind.SNAPSHOT_AGE, threshold=3_600_000)
    hold_back(engine)
    database = engine.log.locate(PARTITION).database
    look(engine, 2)
    assert not Alert.objects.exists()
    sql(
        database,
        "UPDATE broker.partition_live SET snapshot_at = clock_timestamp() - interval '2 hours',"
        " changes = 3",
    )
    look(engine, 2)
    assert (only().object, only().detail) == (f"partition:{PARTITION}", "3 changes since")


def test_dead_letters_whose_topic_was_deleted_are_told_until_it_is_there_again(
    engine: Engine,
) -> None:
    rule_of(Kind.DEAD_LETTERS_STRANDED, for_ms=0, topics="public/default/fl*")
    dead = TopicName("public", "default", "dead")
    for topic in (TOPIC, dead):
        engine.topics.create(topic, TopicSettings())
    name = SubscriptionName(TOPIC, "consumer")
    engine.subscriptions.create(
        name, SubscriptionSettings(max_redeliveries=0, dead_letter_topic=dead)
    )
    engine.produce(PARTITION, [NewMessage(payload=b"x")])
    engine.topics.delete(dead)
    [message] = engine.receive(name, "c")
    engine.nack(name, "c", [message.message_id])
    assert engine.receive(name, "c") == ()
    look(engine, 2)
    alert = only()
    assert (alert.object, alert.value) == (f"subscription:{name}", 1)
    assert alert.detail == "there is no topic public/default/dead"
    engine.topics.create(dead, TopicSettings())
    look(engine, 2)
    assert only().state == AlertState.RESOLVED


def test_a_coordinator_in_recovery_and_a_broken_invariant_are_told(engine: Engine) -> None:
    rule_of(Kind.COORDINATOR_RECOVERING)
    Rule.objects.create(
        name="broken", kind="invariant_broken", threshold=0, severity="critical", clear_ms=0
    )
    sql(
        engine.database,
        "UPDATE coordinator.coordinator SET recover_started_at = clock_timestamp()"
        " - interval '31 s' WHERE tc_id = 2",
    )
    sql(
        engine.database,
        "INSERT INTO coordinator.invariant_check (name, subject, invariant, position, found,"
        """ counter_examples, checked_at) VALUES ('one_outcome', 'coordinator:1', 4, 0, '[]',"""
        """ '[{"txn_id": "1:1"}]', clock_timestamp())""",
    )
    look(engine, 2)
    objects = {alert.object for alert in Alert.objects.filter(state="firing")}
    assert objects == {"coordinator:2", "invariant:one_outcome:coordinator:1"}


def test_what_cannot_be_measured_changes_nothing(engine: Engine) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    Rule.objects.create(
        name="away", kind="database_away", threshold=0, severity="critical", clear_ms=0
    )
    txn_id = hold_back(engine)
    look(engine, 2)
    broker = engine.log.locate(PARTITION).database.name
    finish(engine, txn_id)
    with unreachable(engine, broker):
        look(engine, 2)
        states = dict(Alert.objects.values_list("object", "state"))
        assert states == {
            f"partition:{PARTITION}": AlertState.FIRING,
            f"database:{broker}": AlertState.FIRING,
        }
    look(engine, 2)
    assert set(Alert.objects.values_list("state", flat=True)) == {AlertState.RESOLVED}


def test_a_broker_that_answers_and_does_not_serve_is_told(engine: Engine) -> None:
    rule_of(Kind.DATABASE_AWAY, threshold=0, clear_ms=0)
    [_, other] = engine._brokers
    with other.session() as session:
        session.script("SET default_transaction_read_only = on")
    look(engine)
    [alert] = Alert.objects.all()
    assert (alert.object, alert.detail) == (
        "database:broker-2",
        "broker-2 takes no writes now.",
    )


@pytest.mark.parametrize("kind", [Kind.HELD_BACK, Kind.BLOCKER_TIMEOUT, Kind.SNAPSHOT_AGE])
def test_a_broker_that_is_away_keeps_no_alert_about_others_partitions(
    engine: Engine, kind: Kind
) -> None:
    rule_of(kind, threshold=0)
    other = PartitionName(TopicName("public", "default", "delays"), 0)
    txns = {at: hold_back(engine, at.topic) for at in (PARTITION, other)}
    here, away = (engine.log.locate(at).database for at in txns)
    assert here.name != away.name
    for database in (here, away):
        sql(database, "UPDATE broker.partition_live SET changes = 3")
    look(engine, 2)
    for txn_id in txns.values():
        finish(engine, txn_id)
    for database in (here, away):
        sql(database, "UPDATE broker.partition_live SET changes = 0")
    with unreachable(engine, away.name):
        look(engine, 2)
        states = dict(Alert.objects.filter(kind=kind).values_list("object", "state"))
        assert states == {
            f"partition:{PARTITION}": AlertState.RESOLVED,
            f"partition:{other}": AlertState.FIRING,
        }


def test_a_silence_tells_nobody_until_it_is_over(engine: Engine) -> None:
    rule = rule_of(Kind.HELD_BACK, threshold=0)
    webhook()
    Silence.objects.create(
        rule=rule,
        objects_matching="partition:public/*",
        until=Now() + timedelta(hours=1),
        reason="planned",
        created_by="ann",
    )
    hold_back(engine)
    look(engine, 3)
    assert only().state == AlertState.FIRING
    assert not Notice.objects.exists()
    assert reading.standing().firing == 0
    assert reading.firing(reading.standing())[0].silenced
    pass_time(3600)
    look(engine)
    assert [notice.kind for notice in Notice.objects.all()] == [NoticeKind.FIRING]
    assert reading.standing().firing == 1


def silence_while_measuring(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Somebody silences alerts while the next evaluations measure."""
    measure = Measurements.of

    def measure_and_silence(self: Measurements, kind: Kind) -> Measured:
        measured = measure(self, kind)
        silence = {"reason": "planned", "created_by": "ann"} | fields
        Silence.objects.create(until=Now() + timedelta(hours=1), **silence)
        return measured

    monkeypatch.setattr(Measurements, "of", measure_and_silence)


def test_a_silence_counts_for_an_evaluation_that_is_under_way(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    webhook()
    hold_back(engine)
    look(engine)
    assert only().state == AlertState.PENDING
    silence_while_measuring(monkeypatch, objects_matching="partition:public/*")
    look(engine)
    assert only().state == AlertState.FIRING
    assert not Notice.objects.exists()
    assert reading.firing(reading.standing())[0].silenced


def test_a_silence_of_workers_counts_for_an_evaluation_that_is_under_way(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule_of(Kind.WORKER_SILENT)
    webhook()
    Evaluation.objects.update(at=Now())
    evaluate(engine)
    pass_time(31)
    silence_while_measuring(monkeypatch, objects_matching="workers")
    evaluate(engine)
    assert only().silenced_until is not None
    assert not Notice.objects.exists()


def test_channels_hear_of_what_is_severe_enough(engine: Engine) -> None:
    rule_of(Kind.HELD_BACK, threshold=0, severity="warning")
    webhook(name="all")
    webhook(name="worst", min_severity="critical")
    webhook(name="off", enabled=False)
    hold_back(engine)
    look(engine, 2)
    assert [notice.channel.name for notice in Notice.objects.all()] == ["all"]


def test_whoever_heard_of_an_alert_hears_of_its_end_and_nobody_else(engine: Engine) -> None:
    rule = rule_of(Kind.HELD_BACK, threshold=0, severity="critical")
    webhook(name="worst", min_severity="critical")
    txn_id = hold_back(engine)
    look(engine, 2)
    Rule.objects.filter(pk=rule.pk).update(severity="info")
    webhook(name="late")
    finish(engine, txn_id)
    look(engine, 2)
    assert only().state == AlertState.RESOLVED
    heard = [(notice.channel.name, notice.kind) for notice in Notice.objects.all()]
    assert heard == [("worst", NoticeKind.FIRING), ("worst", NoticeKind.RESOLVED)]


def test_channels_hear_when_an_alert_that_fires_becomes_more_severe_and_only_once(
    engine: Engine,
) -> None:
    rule = rule_of(Kind.HELD_BACK, threshold=0, severity="warning", remind_ms=0)
    webhook(name="all")
    webhook(name="worst", min_severity="critical")
    hold_back(engine)
    look(engine, 2)
    for severity in ("critical", "info", "critical"):
        Rule.objects.filter(pk=rule.pk).update(severity=severity)
        look(engine, 2)
    heard = [(notice.channel.name, notice.kind) for notice in Notice.objects.all()]
    firing = NoticeKind.FIRING
    assert heard == [("all", firing), ("all", firing), ("worst", firing)]


def test_what_became_more_severe_within_a_silence_is_told_when_the_silence_is_over(
    engine: Engine,
) -> None:
    rule = rule_of(Kind.HELD_BACK, threshold=0, severity="warning", remind_ms=0)
    webhook(name="worst", min_severity="critical")
    hold_back(engine)
    look(engine, 2)
    until = only().measured_at + timedelta(seconds=30)
    Silence.objects.create(until=until, reason="work", created_by="ann")
    Rule.objects.filter(pk=rule.pk).update(severity="critical")
    look(engine, 2)
    assert only().severity == "critical"
    assert not Notice.objects.exists()
    pass_time(60)
    look(engine)
    assert Notice.objects.get().kind == NoticeKind.FIRING


def test_an_alert_of_before_was_told_with_the_severity_that_it_has() -> None:
    told, untold = alert(1, notified_at=database_now()), alert(2)
    import_module("txnconsole.alerts.migrations.0005_alert_notified_severity").told_as_they_are(
        apps, None
    )
    told.refresh_from_db()
    untold.refresh_from_db()
    assert (told.notified_severity, untold.notified_severity) == ("warning", "")


def test_a_channel_that_was_made_while_an_alert_fired_hears_nothing_of_its_end(
    engine: Engine,
) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    txn_id = hold_back(engine)
    look(engine, 2)
    webhook(name="late")
    finish(engine, txn_id)
    look(engine, 2)
    assert only().state == AlertState.RESOLVED
    assert not Notice.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_silences_at_once_are_both_noted_on_what_they_cover(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    hold_back(engine)
    look(engine, 2)
    update = handling._update_silenced_until

    def silence(hours: int) -> None:
        handling.silence(
            Actor("ann"),
            rule_id=None,
            objects_matching="*",
            duration_ms=hours * 3_600_000,
            reason="planned",
        )

    def silence_beside() -> None:
        silence(hours=1)
        connection.close()

    beside = threading.Thread(target=silence_beside)

    def update_and_be_met() -> None:
        monkeypatch.setattr(handling, "_update_silenced_until", update)
        update()
        beside.start()
        assert eventually(_waits_for_a_lock)

    monkeypatch.setattr(handling, "_update_silenced_until", update_and_be_met)
    silence(hours=2)
    beside.join(60)
    assert Silence.objects.count() == 2
    assert only().silenced_until == max(Silence.objects.values_list("until", flat=True))


def _waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone() is not None


def test_a_clock_that_goes_back_stops_no_evaluation(engine: Engine) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    evaluate(engine)
    pass_time(-3600)
    hold_back(engine)
    look(engine, 2)
    assert only().state == AlertState.FIRING


def test_switching_a_rule_off_resolves_its_alerts(engine: Engine) -> None:
    rule = rule_of(Kind.HELD_BACK, threshold=0)
    hold_back(engine)
    look(engine, 2)
    Rule.objects.filter(pk=rule.pk).update(enabled=False)
    look(engine, 2)
    assert only().state == AlertState.RESOLVED
    assert only().resolution == "The rule was switched off."


def test_one_rule_that_fails_does_not_hold_up_the_others_and_shows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = rule_of(Kind.HELD_BACK, threshold=0, name="a")
    good = Rule.objects.create(name="b", kind="held_back", threshold=0, severity="info", clear_ms=0)
    hold_back(engine)
    apply = evaluating._apply

    def failing(rule: Rule, *arguments: Any) -> int:
        if rule.pk == broken.pk:
            raise ZeroDivisionError
        return apply(rule, *arguments)

    monkeypatch.setattr(evaluating, "_apply", failing)
    before = Evaluation.objects.get_or_create(pk=1)[0].at
    evaluate(engine)
    assert only().rule == good
    assert Evaluation.objects.get().at == before


def test_a_worker_that_dies_between_firing_and_telling_leaves_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    rule_of(Kind.HELD_BACK, threshold=0)
    webhook()
    hold_back(engine)
    look(engine)
    with monkeypatch.context() as patched:
        patched.setattr(notices, "notify", die)
        with pytest.raises(Killed):
            evaluate(engine)
    assert only().state == AlertState.PENDING
    look(engine)
    assert only().state == AlertState.FIRING
    assert Notice.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_fire_once(engine: Engine) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    Evaluation.objects.get_or_create(pk=1)
    webhook()
    hold_back(engine)
    look(engine)
    gate = threading.Barrier(2)

    def work() -> None:
        gate.wait(60)
        evaluate(engine)
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert only().state == AlertState.FIRING
    assert Notice.objects.count() == 1


def test_silent_workers_are_told_by_whoever_reads_and_written_down_by_who_comes_back(
    engine: Engine,
) -> None:
    rule_of(Kind.WORKER_SILENT)
    webhook()
    Evaluation.objects.update(at=Now())
    evaluate(engine)
    assert reading.firing(reading.standing()) == []
    pass_time(31)
    [told] = reading.firing(reading.standing())
    assert (told.id, told.object, told.kind) == (None, "workers", Kind.WORKER_SILENT)
    assert told.value >= 31_000
    assert reading.standing().firing == 1
    assert not Alert.objects.exists()
    evaluate(engine)
    assert reading.firing(reading.standing()) == []
    alert = only()
    assert (alert.state, alert.object) == (AlertState.RESOLVED, "workers")
    assert alert.value >= 31_000
    assert [notice.kind for notice in Notice.objects.all()] == [NoticeKind.RESOLVED]


def test_a_silence_covers_silent_workers_too(engine: Engine) -> None:
    rule_of(Kind.WORKER_SILENT)
    Silence.objects.create(
        objects_matching="workers",
        until=Now() + timedelta(hours=1),
        reason="upgrade",
        created_by="ann",
    )
    evaluate(engine)
    pass_time(31)
    assert reading.standing().firing == 0
    assert reading.firing(reading.standing())[0].silenced

"""Alerts over REST: lists, acknowledgements, silences, rules, channels; what the audit log has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core import mail
from django.db.models.functions import Now

from engine import Engine
from engine.postgres import deadlines
from tests.alerts.conftest import finish, hold_back, look, pass_time, rule_of
from tests.api.conftest import Caller
from txnconsole.alerts import delivering, rules
from txnconsole.alerts.errors import DeliveryFailed
from txnconsole.alerts.evaluating import evaluate
from txnconsole.alerts.kinds import Kind
from txnconsole.alerts.models import Channel, Evaluation, Message, Rule
from txnconsole.audit.models import AuditEntry

RULE = {"name": "mine", "kind": "held_back", "threshold": 60_000, "topics": "public/*"}
HOOK = {"name": "hook", "kind": "webhook", "url": "https://hooks.example.com/SECRET-PATH?k=KEY"}


@pytest.fixture
def admin(as_role: Callable[..., Caller]) -> Caller:
    Evaluation.objects.update(at=Now())
    return as_role("admin", user="root")


@pytest.fixture
def operator(as_role: Callable[..., Caller]) -> Caller:
    return as_role("operator", user="olga")


def made(answer: Any, status: int = 201) -> Any:
    assert answer.status == status, answer.content
    return answer.json


def audited(action: str) -> AuditEntry:
    return AuditEntry.objects.filter(action=action).latest("sequence")


def test_what_fires_is_listed_acknowledged_and_ends_in_the_history(
    engine: Engine, admin: Caller, operator: Caller
) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    txn_id = hold_back(engine)
    look(engine, 2)
    [alert] = admin.get("/alerts?state=firing").json["items"]
    assert alert["object"] == "partition:public/default/flights:0"
    assert (alert["state"], alert["unit"], alert["acknowledgement"]) == ("firing", "ms", None)
    path = f"/alerts/{alert['id']}"
    assert admin.get(path).json["rule"] == "Partition held back"
    answer = made(operator.post(f"{path}/acknowledge", {"note": "on it"}), 200)
    assert answer["acknowledgement"]["by"] == "olga"
    again = made(admin.post(f"{path}/acknowledge", {"note": "me too"}), 200)
    assert again["acknowledgement"]["note"] == "on it"
    entry = audited("alert.acknowledge")
    assert (entry.who, entry.object, entry.result) == ("root", f"alert:{alert['id']}", "done")
    finish(engine, txn_id)
    look(engine, 2)
    assert admin.get("/alerts?state=firing").json["items"] == []
    [resolved] = admin.get("/alerts?state=resolved&rule=Partition held back").json["items"]
    assert resolved["resolved_at"] is not None
    assert operator.post(f"{path}/acknowledge").is_problem(409, "AlertConflict")
    assert operator.post("/alerts/999999/acknowledge").is_problem(404, "AlertNotFound")


def test_pages_of_alerts_go_on_by_their_cursor(engine: Engine, admin: Caller) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    for name in ("a", "b", "c"):
        Rule.objects.create(name=name, kind="held_back", threshold=0, severity="info")
    hold_back(engine)
    look(engine, 2)
    first = admin.get("/alerts?limit=3").json
    rest = admin.get(f"/alerts?limit=3&cursor={first['next_cursor']}").json
    assert (len(first["items"]), len(rest["items"]), rest["next_cursor"]) == (3, 1, None)
    assert admin.get("/alerts?cursor=x").is_problem(400, "InvalidRequest")


def test_silent_workers_are_told_when_nobody_can_have_written_it_down(
    engine: Engine, admin: Caller
) -> None:
    rule_of(Kind.WORKER_SILENT)
    evaluate(engine)
    pass_time(100)
    answer = admin.get("/alerts?state=firing").json
    [alert] = answer["items"]
    assert (alert["id"], alert["object"], alert["kind"]) == (None, "workers", "worker_silent")
    assert answer["evaluated_at"] is not None
    assert admin.get("/alerts?state=resolved").json["items"] == []


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_have_no_more_than_their_limit_while_workers_are_silent(
    engine: Engine, admin: Caller, limit: int
) -> None:
    rule_of(Kind.WORKER_SILENT)
    for name in ("a", "b"):
        Rule.objects.create(name=name, kind="held_back", threshold=0, severity="info")
    hold_back(engine)
    look(engine, 2)
    pass_time(100)
    pages, cursor = [], ""
    while cursor is not None:
        answer = admin.get(f"/alerts?limit={limit}{cursor and f'&cursor={cursor}'}").json
        pages.append([alert["kind"] for alert in answer["items"]])
        cursor = answer["next_cursor"]
    kinds = [str(Kind.WORKER_SILENT), str(Kind.HELD_BACK), str(Kind.HELD_BACK)]
    assert pages == [kinds[at : at + limit] for at in range(0, 3, limit)]


def test_prometheus_is_told_what_fires_and_how_old_that_is(engine: Engine, admin: Caller) -> None:
    rule = rule_of(Kind.HELD_BACK, threshold=0)
    quiet = Rule.objects.create(name="quiet", kind="overdue", threshold=1, severity="info")
    hold_back(engine)
    look(engine, 2)
    found = admin.get("/metrics", base="").content.decode()
    assert f'alerts_firing{{rule="{rule.name}",severity="warning"}} 1.0' in found
    assert f'alerts_firing{{rule="{quiet.name}",severity="info"}} 0.0' in found
    [age] = [line for line in found.splitlines() if line.startswith("txnconsole_alerts_evaluation")]
    assert 5 <= float(age.split()[1]) < 60


def test_a_silence_holds_at_once_and_until_it_is_ended(
    engine: Engine, admin: Caller, operator: Caller
) -> None:
    rule = rule_of(Kind.HELD_BACK, threshold=0)
    hold_back(engine)
    look(engine, 2)
    body = {"duration_ms": 3_600_000, "reason": "planned", "rule_id": rule.pk}
    silence = made(operator.post("/alerts/silences", body | {"objects_matching": "partition:*"}))
    [alert] = admin.get("/alerts?state=firing").json["items"]
    assert alert["silenced_until"] == silence["until"]
    assert admin.get("/alerts/silences?open=true").json["items"] == [silence]
    ended = made(operator.delete(f"/alerts/silences/{silence['id']}"), 200)
    assert ended["ended_by"] == "olga"
    assert made(operator.delete(f"/alerts/silences/{silence['id']}"), 200) == ended
    assert admin.get("/alerts?state=firing").json["items"][0]["silenced_until"] is None
    assert admin.get("/alerts/silences?open=true").json["items"] == []
    entry = audited("alert.silence")
    assert (entry.who, entry.reason) == ("olga", "planned")
    unknown = operator.post("/alerts/silences", body | {"rule_id": 999_999})
    assert unknown.is_problem(404, "AlertRuleNotFound")
    assert operator.post("/alerts/silences", body | {"reason": " "}).status == 400
    assert operator.post("/alerts/silences", body | {"duration_ms": 1}).status == 400


def test_a_rule_is_made_changed_and_deleted_and_the_log_knows(
    engine: Engine, admin: Caller
) -> None:
    Rule.objects.all().delete()
    rule = made(admin.post("/alerts/rules", RULE))
    assert rule["measures"].startswith("For how long the first message")
    path = f"/alerts/rules/{rule['id']}"
    changed = made(admin.put(path, RULE | {"threshold": 0, "severity": "critical"}), 200)
    assert (changed["threshold"], changed["changed_by"]) == (0, "root")
    before_and_after = audited("alert_rule.change")
    assert '"threshold":60000' in before_and_after.before
    assert '"threshold":0' in before_and_after.after
    hold_back(engine)
    look(engine, 2)
    assert admin.get("/alerts/rules").json["items"][0]["firing"] == 1
    assert admin.delete(path).status == 204
    assert admin.get(path).is_problem(404, "AlertRuleNotFound")
    [alert] = admin.get("/alerts").json["items"]
    assert (alert["state"], alert["resolution"]) == ("resolved", "The rule was deleted.")
    assert (alert["rule"], alert["rule_id"]) == ("mine", None)


def test_a_rule_that_is_deleted_at_once_was_made_all_the_same(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = rules.create_rule

    def deleted_at_once(*args: Any) -> Rule:
        made = real(*args)
        Rule.objects.filter(pk=made.pk).delete()
        return made

    monkeypatch.setattr(rules, "create_rule", deleted_at_once)
    assert made(admin.post("/alerts/rules", RULE))["firing"] == 0


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("kind", {"kind": "overdue", "topics": "*"}),
        ("topics", {"kind": "overdue"}),
        ("name", {"name": "two\nlines"}),
        ("name", {"name": " "}),
        ("threshold", {"threshold": -1}),
        ("threshold", {"threshold": 1e30}),
        ("for_ms", {"for_ms": 10**12}),
        ("remind_ms", {"remind_ms": 1}),
        ("severity", {"severity": "bad"}),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_its_field(
    field: str, change: dict[str, object], admin: Caller
) -> None:
    rule = made(admin.post("/alerts/rules", RULE))
    answer = admin.put(f"/alerts/rules/{rule['id']}", RULE | change)
    assert answer.is_problem(400, "InvalidRequest")
    assert answer.json["errors"][0]["field"] == field


def test_a_name_is_taken_once(admin: Caller) -> None:
    made(admin.post("/alerts/rules", RULE))
    assert admin.post("/alerts/rules", RULE).is_problem(409, "AlertConflict")
    made(admin.post("/alerts/channels", HOOK))
    assert admin.post("/alerts/channels", HOOK).is_problem(409, "AlertConflict")


def test_a_webhooks_secrets_are_shown_once_and_are_in_no_log(
    admin: Caller, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")
    answer = made(admin.post("/alerts/channels", HOOK))
    secret = answer["secret"]
    assert secret.startswith("txs_")
    assert answer["channel"]["target"] == "https://hooks.example.com/…"
    path = f"/alerts/channels/{answer['channel']['id']}"
    renewed = made(admin.post(f"{path}/secret"), 200)
    assert renewed["secret"] not in (None, secret)
    shown = admin.get(path).content + admin.get("/alerts/channels").content
    kept = admin.put(path, {"name": "renamed", "kind": "webhook"})
    assert Channel.objects.get().url == HOOK["url"]
    log = "".join(f"{entry.before}{entry.after}" for entry in AuditEntry.objects.all())
    said = capfd.readouterr().err
    assert f"{path}/secret" in said
    for text in (shown.decode(), kept.content.decode(), log, caplog.text, said):
        assert "SECRET-PATH" not in text
        assert secret not in text
        assert renewed["secret"] not in text
    assert audited("alert_channel.renew_secret").result == "done"


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("url", {"url": None}),
        ("url", {"url": "ftp://example.com"}),
        ("recipients", {"recipients": ["a@example.com"]}),
        ("recipients", {"kind": "email", "url": None, "recipients": ["nobody"]}),
        ("recipients", {"kind": "email", "url": None}),
        ("url", {"kind": "email", "recipients": ["a@example.com"]}),
    ],
)
def test_a_channel_that_makes_no_sense_is_refused_by_its_field(
    field: str, change: dict[str, object], admin: Caller
) -> None:
    answer = admin.post("/alerts/channels", HOOK | change)
    assert answer.is_problem(400, "InvalidRequest")
    assert answer.json["errors"][0]["field"] == field


def test_a_test_says_at_once_what_came_of_it(admin: Caller) -> None:
    body = {"name": "ops", "kind": "email", "recipients": ["ops@example.com"]}
    channel = made(admin.post("/alerts/channels", body))["channel"]
    answer = made(admin.post(f"/alerts/channels/{channel['id']}/test"), 200)
    assert (answer["state"], answer["attempts"]) == ("sent", 1)
    assert mail.outbox[0].subject == "Test of the channel ops"
    hook = made(admin.post("/alerts/channels", HOOK | {"url": "http://127.0.0.1:9/x"}))["channel"]
    path = f"/alerts/channels/{hook['id']}"
    answer = made(admin.post(f"{path}/test"), 200)
    assert answer["state"] == "dead"
    assert "private address" in answer["last_error"]
    assert admin.get(f"{path}/messages").json["items"] == [answer]
    again = made(admin.post(f"{path}/messages/{answer['id']}/resend"), 200)
    assert (again["state"], again["attempts"]) == ("queued", 0)
    refused = admin.post(f"{path}/messages/{answer['id']}/resend")
    assert refused.is_problem(409, "AlertConflict")
    elsewhere = admin.post(f"/alerts/channels/{channel['id']}/messages/{answer['id']}/resend")
    assert elsewhere.is_problem(404, "AlertMessageNotFound")
    assert admin.delete(path).status == 204
    assert not Message.objects.filter(channel_id=hook["id"]).exists()


def test_a_test_of_a_receiver_that_is_silent_for_as_long_as_a_request_may_take_says_so(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = made(admin.post("/alerts/channels", HOOK))["channel"]

    def silent(message: Message) -> None:
        monkeypatch.setattr(deadlines, "monotonic", lambda: float("inf"))
        raise DeliveryFailed("It did not answer in time.")

    monkeypatch.setattr(delivering, "_SEND", {"webhook": silent})
    answer = made(admin.post(f"/alerts/channels/{channel['id']}/test"), 200)
    assert (answer["state"], answer["last_error"]) == ("dead", "It did not answer in time.")


def test_a_token_that_is_limited_to_topics_sees_no_alerts(as_role: Callable[..., Caller]) -> None:
    limited = as_role("viewer", topics="public/default/*")
    assert limited.get("/alerts").is_problem(403, "PermissionDenied")


def test_a_refused_acknowledgement_is_counted_by_its_subscription(
    engine: Engine, program: Caller, topic: str, valkey_url: str
) -> None:
    from txnconsole.queue.conflicts import conflicts_per_minute

    path = f"/topics/{topic}/subscriptions/s"
    assert program.put(path).status == 201
    program.produce("x")
    [message] = program.post(f"{path}/receive", {"consumer": "c"}).json["messages"]
    ack = {"consumer": "c", "message_ids": [message["message_id"]]}
    assert program.post(f"{path}/ack", ack | {"txn_id": program.open()}).status == 200
    assert program.post(f"{path}/ack", ack | {"txn_id": program.open()}).status == 409
    assert list(conflicts_per_minute() or ()) == [f"{topic}/s"]
    rule_of(Kind.CONFLICT_RATE, threshold=0, topics="public/default/*")
    look(engine, 2)
    [alert] = Rule.objects.get().alerts.all()
    assert (alert.object, alert.state) == (f"subscription:{topic}/s", "firing")

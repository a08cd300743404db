"""The pages of alerts, as each role sees them, with and without a script."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from engine import Engine
from tests.alerts.conftest import finish, hold_back, look, pass_time, rule_of
from tests.console.conftest import signed_in
from txnconsole.alerts.evaluating import evaluate
from txnconsole.alerts.handling import MAX_SILENCES
from txnconsole.alerts.kinds import KINDS, Kind
from txnconsole.alerts.models import Alert, Channel, Evaluation, Message, Notice, Rule, Silence
from txnconsole.alerts.states import AlertState, ChannelKind, NoticeKind
from txnconsole.audit.models import AuditEntry
from txnconsole.enginedb.clock import database_now

PAGES = ("alerts", "alert-history", "alert-silences", "alert-rules")
HTMX = {"HTTP_HX_REQUEST": "true"}
REASON = {"reason": "not needed any more"}


@pytest.fixture(autouse=True)
def evaluated(db: None) -> None:
    Evaluation.objects.update(at=Now())


@pytest.fixture
def admin(db: None) -> Client:
    return signed_in("admin")


def body(answer: Any, status: int = 200) -> str:
    text: str = answer.content.decode()
    assert answer.status_code == status, text
    return text


def fired(engine: Engine, **fields: Any) -> Alert:
    rule_of(Kind.HELD_BACK, threshold=0, **fields)
    hold_back(engine)
    look(engine, 2)
    return Alert.objects.get()


def kept_region(client: Client) -> str:
    """Where the page of what fires reads its list again."""
    [address] = re.findall(r'id="region"[^>]* hx-get="([^"]+)"', body(client.get("/alerts")))
    return html.unescape(address)


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_page_says_what_would_be_there(page: str, viewer: Client) -> None:
    Rule.objects.all().delete()
    text = body(viewer.get(reverse(f"console:{page}")))
    assert 'class="empty"' in text
    assert "Channels</a>" not in text


def test_what_fires_is_shown_with_its_object_value_and_course(
    engine: Engine, viewer: Client, operator: Client
) -> None:
    alert = fired(engine)
    text = body(viewer.get("/alerts"))
    assert "(1) Alerts" in text
    assert 'href="/topics/public/default/flights/partitions/0/log"' in text
    assert "<polyline" in text
    assert f"/alerts/{alert.pk}/acknowledge" not in text
    region = body(operator.get("/alerts", **HTMX))
    assert "<html" not in region
    assert f"/alerts/{alert.pk}/acknowledge" in region
    assert "Nobody yet" in region


def test_an_alerts_page_leads_on_and_names_the_transaction_anew_whenever_it_is_read(
    engine: Engine, viewer: Client
) -> None:
    alert = fired(engine)
    [holder] = re.findall(r"[0-9]+:[0-9]+$", alert.detail)
    page = body(viewer.get(f"/alerts/{alert.pk}"))
    assert re.search(r'href="/topics/[^"]+/log">Look into it<', page)
    region = body(viewer.get(f"/alerts/{alert.pk}", **HTMX))
    assert f'href="/transactions/{holder}"' in region
    assert KINDS[Kind.HELD_BACK].measures in html.unescape(region)


def test_the_overview_leads_to_each_alert_that_fires(engine: Engine, viewer: Client) -> None:
    alert = fired(engine, name="Held")
    assert f'<a href="/alerts/{alert.pk}">Held</a>' in body(viewer.get("/"))


def test_what_fires_at_the_next_look_already_waits_for_no_span(
    engine: Engine, viewer: Client
) -> None:
    rule_of(Kind.HELD_BACK, threshold=0)
    hold_back(engine)
    look(engine, 1)
    [pending] = re.findall('<tr id="pending-.*?</tr>', body(viewer.get("/alerts")))
    assert " of " not in pending
    Rule.objects.update(for_ms=60_000)
    [pending] = re.findall('<tr id="pending-.*?</tr>', body(viewer.get("/alerts")))
    assert " of 1 min" in pending


def test_every_pages_title_begins_with_how_many_alerts_fire_and_with_nothing_else(
    engine: Engine, viewer: Client
) -> None:
    pages = ("/", "/held-back", "/coordinators", "/coordinators/0", "/search?q=nothing", "/alerts")

    def beginnings() -> set[str]:
        titles = (re.findall("<title>(.*?)</title>", body(viewer.get(page))) for page in pages)
        return {" ".join(re.findall(r"\(.*?\)", title)) for [title] in titles}

    hold_back(engine)
    assert beginnings() == {""}
    fired(engine)
    assert beginnings() == {"(1)"}


@pytest.mark.parametrize(
    ("page", "label", "permission"),
    [
        ("/alerts", "Silence…", "alert.handle"),
        ("/alerts", "Acknowledge…", "alert.handle"),
        ("/alerts/{}", "Acknowledge…", "alert.handle"),
        ("/alerts/silences", "Silence…", "alert.handle"),
        ("/alerts/silences", "End now", "alert.handle"),
        ("/alerts/rules", "New rule…", "alert.manage"),
    ],
)
def test_what_a_viewer_may_not_do_is_disabled_and_names_the_permission(
    engine: Engine, viewer: Client, page: str, label: str, permission: str
) -> None:
    alert = fired(engine)
    Silence.objects.create(
        objects_matching="topic:*",
        until=Now() + timedelta(hours=1),
        reason="work",
        created_by="ann",
    )
    text = body(viewer.get(page.format(alert.pk)))
    assert re.search(rf"<button [^>]*disabled[^>]*>{label}<", text)
    assert f'needs <span class="mono">{permission}</span>' in text


def test_what_fires_later_waits_behind_a_count_and_what_is_over_keeps_its_place(
    engine: Engine, operator: Client
) -> None:
    first = fired(engine)
    region = kept_region(operator)
    later = Alert.objects.get()
    later.pk, later.object, later.fired_at = None, "partition:public/default/b:0", Now()
    later.save()
    text = body(operator.get(region, **HTMX))
    assert "<b>1</b> new since this page was read" in text
    assert "public/default/b:0" not in text
    Alert.objects.filter(pk=first.pk).update(state="resolved", resolved_at=Now())
    text = body(operator.get(region, **HTMX))
    assert f'id="alert-{first.pk}"' in text
    assert "<b>Resolved</b>" in text
    assert "Acknowledge…" not in text
    shown = body(operator.get("/alerts"))
    assert "public/default/b:0" in shown
    assert f'id="alert-{first.pk}"' not in shown


def test_what_an_evaluation_writes_after_the_list_was_read_is_newer_though_measured_before(
    engine: Engine, operator: Client
) -> None:
    fired(engine)
    later = Alert.objects.get()
    later.pk, later.object = None, "partition:public/default/b:0"
    region = kept_region(operator)
    later.save()
    assert "<b>1</b> new since this page was read" in body(operator.get(region, **HTMX))


def test_of_a_list_without_room_for_all_only_what_fired_since_is_newer(
    engine: Engine, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.views.alerts._FIRING_ROWS", 1)
    fired(engine)
    other = Alert.objects.get()
    other.pk, other.object = None, "partition:public/default/b:0"
    other.save()
    region = kept_region(operator)
    text = body(operator.get(region, **HTMX))
    assert "new since this page was read" not in text
    assert "more fires" in text
    other.pk, other.object, other.fired_at = None, "partition:public/default/c:0", Now()
    other.save()
    assert "<b>1</b> new since this page was read" in body(operator.get(region, **HTMX))


def test_a_list_of_nothing_shows_what_fires_at_once(engine: Engine, operator: Client) -> None:
    page = body(operator.get("/alerts"))
    assert 'hx-get="/alerts"' in page
    fired(engine)
    assert "Acknowledge…" in body(operator.get("/alerts", **HTMX))


@pytest.mark.parametrize(
    "query",
    [
        "listed=x&since=y",
        "listed=1,2&since=2026-01-01",
        "listed=1",
        "listed=1&since=2026-02-30T00:00:00Z",
        "listed=1&since=9999-12-31T23:59:59-23:59",
    ],
)
def test_a_list_that_means_nothing_is_read_anew(operator: Client, query: str) -> None:
    assert operator.get(f"/alerts?{query}", **HTMX).status_code == 200


def test_of_many_who_were_told_the_newest_come_first(engine: Engine, viewer: Client) -> None:
    alert = fired(engine)
    channel = Channel.objects.create(name="night-shift", kind=ChannelKind.EMAIL)
    kinds = [NoticeKind.FIRING, *[NoticeKind.REMINDER] * 43, NoticeKind.RESOLVED]
    Notice.objects.bulk_create(
        Notice(channel=channel, alert=alert, kind=kind, value=1, at=alert.fired_at)
        for kind in kinds
    )
    page = body(viewer.get(f"/alerts/{alert.pk}"))
    told = re.findall(r'id="notice-\d+"><th scope="row">night-shift</th><td>(\w+)', page)
    assert (len(told), told[0]) == (40, "Resolved")
    assert "1–40 of 45 notices" in page
    [onward] = re.findall(r'rel="next" href="([^"#]+)', page)
    rest = body(viewer.get(f"/alerts/{alert.pk}{html.unescape(onward)}"))
    told = re.findall(r'id="notice-\d+"><th scope="row">night-shift</th><td>(\w+)', rest)
    assert (len(told), told[-1]) == (5, "Firing")


def test_acknowledging_closes_the_dialog_and_shows_who(engine: Engine, operator: Client) -> None:
    alert = fired(engine)
    path = f"/alerts/{alert.pk}/acknowledge"
    assert "public/default/flights:0</span>" in body(operator.get(path, **HTMX))
    answer = operator.post(path, {"note": "on it"}, **HTMX)
    assert (answer.status_code, answer.headers["HX-Trigger"]) == (204, "alerted")
    assert "a-operator: on it" in body(operator.get("/alerts"))
    plain = operator.post(path, {"note": "on it"})
    assert (plain.status_code, plain["Location"]) == (302, f"/alerts/{alert.pk}")


def test_who_acknowledges_what_somebody_else_has_acknowledged_is_told_and_keeps_the_note(
    engine: Engine, operator: Client, admin: Client
) -> None:
    path = f"/alerts/{fired(engine).pk}/acknowledge"
    assert operator.post(path, {"note": "on it"}, **HTMX).status_code == 204
    text = body(admin.post(path, {"note": "the broker is moved"}, **HTMX), 422)
    assert "a-operator has acknowledged it before" in text
    assert "“on it”" in text
    assert "the broker is moved</textarea>" in text


def test_what_is_resolved_meanwhile_is_said_in_the_dialog(engine: Engine, operator: Client) -> None:
    alert = fired(engine)
    Alert.objects.update(state="resolved", resolved_at=Now())
    text = body(operator.post(f"/alerts/{alert.pk}/acknowledge", {"note": ""}, **HTMX), 422)
    assert "is resolved; only a firing one can be" in text


def test_the_most_silences_that_may_hold_are_shown_a_page_at_a_time(viewer: Client) -> None:
    now = database_now()
    rule = rule_of(Kind.HELD_BACK)
    for held, until in ((True, now + timedelta(days=1)), (False, now)):
        Silence.objects.bulk_create(
            Silence(
                rule=rule, objects_matching=f"{held} {number}", until=until, reason="work",
                created_by="ann", created_at=now,
            )
            for number in range(MAX_SILENCES)
        )  # fmt: skip
    seen: dict[str, set[str]] = {"open": set(), "over": set()}
    for part, found in seen.items():
        address = "/alerts/silences"
        while address:
            page = viewer.get(address)
            assert len(page.content) < 250_000
            text = html.unescape(body(page))
            found |= set(
                re.findall(r"<tr id=\"silence-(\d+)\"", text.split('id="h-over"')[part == "over"])
            )
            following = re.search(rf'rel="next" href="(\?[^"]*{part}=\d+)#', text)
            address = f"/alerts/silences{following[1]}" if following else ""
    assert len(seen["open"]) == len(seen["over"]) == MAX_SILENCES


def test_a_silence_is_made_from_an_alert_and_ended(engine: Engine, operator: Client) -> None:
    alert = fired(engine)
    form = body(operator.get(f"/alerts/silence?object={alert.object}&rule={alert.rule_id}"))
    assert f'value="{alert.object}"' in form
    given = {
        "objects_matching": alert.object,
        "rule": alert.rule_id,
        "duration_ms": 3_600_000,
        "reason": "short",
    }
    text = body(operator.post("/alerts/silence", given, **HTMX), 422)
    assert "Give a reason of at least 8 characters." in text
    answer = operator.post("/alerts/silence", given | {"reason": "planned work"})
    assert answer["Location"] == "/alerts/silences"
    assert "Silenced until" in body(operator.get("/alerts"))
    assert "(1) Alerts" not in body(operator.get("/alerts"))
    assert "planned work" in body(operator.get("/alerts/silences"))
    operator.post(f"/alerts/silences/{Silence.objects.get().pk}/end")
    told = 'role="status" tabindex="-1" autofocus><span>The silence of '
    page = body(operator.get("/alerts/silences"))
    assert f"{told}{alert.object} is over.</span>" in page
    assert "Nothing is silenced" in page
    assert told not in body(operator.get("/alerts/silences"))


def test_the_history_has_pages_and_filters(
    engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.views.alerts.PAGE_ROWS", 1)
    rule_of(Kind.HELD_BACK, threshold=0)
    Rule.objects.create(name="second", kind="held_back", threshold=0, severity="info", clear_ms=0)
    txn_id = hold_back(engine)
    look(engine, 2)
    finish(engine, txn_id)
    look(engine, 2)
    first = body(viewer.get("/alerts/history"))
    assert 'rel="next"' in first
    [since] = re.findall(r'hx-get="(/alerts/history/since[^"]*)"', first)
    assert body(viewer.get(html.unescape(since))).strip() == ""
    late = Alert.objects.latest("id")  # Measured before the page was read, written after.
    late.pk, late.object = None, "partition:public/default/late:0"
    late.save()
    assert "<b>1</b> new" in body(viewer.get(html.unescape(since)))
    late.delete()
    assert "<b>2</b> new" in body(viewer.get("/alerts/history/since?since=2026-01-01T00:00:00Z"))
    for none in ("yesterday", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00%2B14:00"):
        assert viewer.get(f"/alerts/history/since?since={none}").status_code == 400
    last = Alert.objects.latest("id").pk
    assert "The history begins here" in body(viewer.get(f"/alerts/history?before={last}"))
    assert "No resolved alert matches" in body(viewer.get("/alerts/history?rule=nothing"))
    assert "second" in body(viewer.get("/alerts/history?rule=second"))
    assert "Nobody was told" in body(viewer.get(f"/alerts/{last}"))
    assert "resolved" in body(viewer.get("/alerts"))


def test_an_alert_that_is_not_there_is_not_found(viewer: Client, operator: Client) -> None:
    body(viewer.get("/alerts/999999"), 404)
    body(operator.get(f"/alerts/{10**25}/acknowledge"), 404)


def test_what_a_dialog_says_does_not_stand_in_the_search_box(operator: Client) -> None:
    text = body(operator.get("/alerts/silence"))
    assert re.search(r'<input id="q"[^>]* value=""', text)


def test_silent_workers_are_on_the_page(engine: Engine, operator: Client) -> None:
    rule_of(Kind.WORKER_SILENT)
    evaluate(engine)
    pass_time(95)
    text = body(operator.get("/alerts"))
    assert "No worker evaluates the rules" in text
    # Counted from when the page is made, which a busy machine does later.
    assert re.search(r"\b(1 min (3[5-9]|[45]\d)|\d+ min \d+) s\b", text)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_rule_of_every_kind_is_made_as_its_form_proposes(kind: Kind, admin: Client) -> None:
    Rule.objects.all().delete()
    page = admin.get(f"/alerts/rules/new?kind={kind}")
    form = page.context["form"]
    given = {name: form.initial.get(name, field.initial) for name, field in form.fields.items()}
    answer = admin.post(f"/alerts/rules/new?kind={kind}", given | {"name": "mine", "enabled": "on"})
    assert answer.status_code == 302, answer.content.decode()
    rule, terms = Rule.objects.get(), KINDS[kind]
    assert (rule.threshold, rule.for_ms, rule.severity) == (
        terms.threshold,
        terms.for_ms,
        terms.severity,
    )
    assert (rule.clear_ms, rule.remind_ms, rule.enabled) == (15_000, 14_400_000, True)


def test_a_rule_is_changed_and_deleted_by_administrators_alone(
    admin: Client, operator: Client, viewer: Client
) -> None:
    rule = rule_of(Kind.HELD_BACK)
    path = f"/alerts/rules/{rule.pk}"
    given = {
        "name": "renamed",
        "topics": "public/*",
        "threshold": "1.5",
        "hold": "0",
        "clear": "30",
        "remind": "0",
        "severity": "info",
    }
    for person in (operator, viewer):
        assert "alert.manage" in body(person.post(path, given), 403)
        assert 'needs <span class="mono">alert.manage</span>' in body(person.get("/alerts/rules"))
    assert "What should the rule measure?" in body(admin.get("/alerts/rules/new"))
    refused = body(admin.post(path, given | {"remind": "0.001"}), 422)
    assert "It must be 0 (never) or a minute at least." in refused
    assert admin.post(path, given).status_code == 302
    rule.refresh_from_db()
    assert (rule.name, rule.threshold, rule.clear_ms, rule.enabled) == (
        "renamed",
        1500,
        30_000,
        False,
    )
    assert "Its silences are deleted." in body(admin.get(f"{path}/delete"))
    assert "Give a reason" in body(admin.post(f"{path}/delete"), 422)
    assert admin.post(f"{path}/delete", REASON).status_code == 302
    assert not Rule.objects.exists()
    assert AuditEntry.objects.get(action="alert_rule.delete").reason == REASON["reason"]


def sent_back(page: Any) -> dict[str, Any]:
    """What a browser sends of a form of settings as it was shown."""
    form = page.context["form"]
    values = {name: form[name].value() for name in form.fields}
    values["enabled"] = "on" if values["enabled"] else ""
    [seen] = re.findall(r'name="seen" value="([^"]+)"', page.content.decode())
    return values | {"seen": seen}


def test_of_two_who_change_a_rule_at_once_the_second_is_shown_what_the_first_has_done(
    admin: Client,
) -> None:
    path = f"/alerts/rules/{rule_of(Kind.HELD_BACK).pk}"
    mine = theirs = sent_back(admin.get(path))
    theirs = theirs | {"threshold": "90", "severity": "critical"}
    assert signed_in("admin", name="ann").post(path, theirs).status_code == 302
    mine = mine | {"name": "mine", "clear": "20"}
    wrong = admin.post(path, mine | {"threshold": ""})
    assert sent_back(wrong)["seen"] == mine["seen"]
    answer = admin.post(path, mine)
    text = body(answer, 422)
    assert "ann has changed &#x27;Partition held back&#x27; since you opened it." in text
    errors = {name: told[0] for name, told in answer.context["form"].errors.items() if name}
    errors.pop("__all__")
    assert errors == {
        "name": "It is Partition held back now.",
        "threshold": "It is 90 now.",
        "clear": "It is 0 now.",
        "severity": "It is Critical now.",
    }
    rule = Rule.objects.get()
    assert (rule.name, rule.threshold, rule.severity) == ("Partition held back", 90_000, "critical")
    again = sent_back(answer)
    assert (again["threshold"], again["clear"]) == ("60", "20")
    assert admin.post(path, again).status_code == 302
    rule.refresh_from_db()
    assert (rule.name, rule.threshold, rule.clear_ms) == ("mine", 60_000, 20_000)


def test_of_two_who_change_a_channel_at_once_the_second_is_shown_what_the_first_has_done(
    admin: Client,
) -> None:
    recipients = ["ann@example.com", "bob@example.com"]
    channel = Channel.objects.create(name="ops", kind="email", recipients=recipients)
    path = f"/alerts/channels/{channel.pk}"
    mine = sent_back(admin.get(path))
    mine["recipients"] = mine["recipients"].replace("\n", "\r\n")  # As browsers send it.
    assert admin.post(path, mine | {"enabled": "", "name": "off"}).status_code == 302
    answer = admin.post(path, mine)
    assert body(answer, 422)
    errors = dict(answer.context["form"].errors)
    errors.pop("__all__")
    assert errors == {"name": ["It is off now."], "enabled": ["It is off now."]}
    assert Channel.objects.get().enabled is False
    assert admin.post(path, sent_back(answer)).status_code == 302
    assert Channel.objects.get().enabled is True


def test_a_webhooks_address_that_another_has_changed_is_not_told(admin: Client) -> None:
    channel = Channel.objects.create(name="hook", kind="webhook", url="https://a.example/SECRET")
    path = f"/alerts/channels/{channel.pk}"
    mine = sent_back(admin.get(path)) | {"url": "https://b.example/MINE"}
    assert admin.post(path, mine | {"url": "https://c.example/OTHER"}).status_code == 302
    answer = admin.post(path, mine)
    assert "OTHER" not in body(answer, 422)
    assert Channel.objects.get().url == "https://c.example/OTHER"


@pytest.mark.parametrize("field", ["hold", "clear", "remind"])
def test_a_span_beyond_a_week_is_refused_however_large(field: str, admin: Client) -> None:
    rule = rule_of(Kind.HELD_BACK)
    given = {"name": "mine", "topics": "*", "threshold": "1", "severity": "info"}
    spans = {"hold": "0", "clear": "0", "remind": "0"}
    for text in ("604801", "1e308"):
        refused = admin.post(f"/alerts/rules/{rule.pk}", given | spans | {field: text})
        assert "It must be from 0 to seven days." in body(refused, 422)


def test_rules_and_channels_are_listed_by_name(admin: Client) -> None:
    for name in ("c", "a", "b"):
        Channel.objects.create(name=name, kind="email", recipients=["ops@example.com"])
    channels = re.findall(r'/alerts/channels/\d+">(\w)</a>', body(admin.get("/alerts/channels")))
    assert channels == ["a", "b", "c"]
    rules = re.findall(r'/alerts/rules/\d+">([^<]+)</a>', body(admin.get("/alerts/rules")))
    assert len(rules) == len(KINDS)
    assert rules == sorted(rules)


def test_a_webhooks_secret_is_on_one_page_once(admin: Client) -> None:
    given = {
        "name": "hook",
        "url": "https://hooks.example.com/SECRET-PATH",
        "min_severity": "warning",
        "enabled": "on",
    }
    made = admin.post("/alerts/channels/new?kind=webhook", given)
    channel = Channel.objects.get()
    assert made["Location"] == f"/alerts/channels/{channel.pk}"
    page = admin.get(made["Location"])
    assert channel.secret in body(page)
    assert page["Cache-Control"] == "no-store"
    for address in ("/alerts/channels", f"/alerts/channels/{channel.pk}"):
        shown = body(admin.get(address))
        assert "https://hooks.example.com/…" in shown
        assert "SECRET-PATH" not in shown
        assert channel.secret not in shown
    kept = admin.post(f"/alerts/channels/{channel.pk}", given | {"url": "", "name": "renamed"})
    assert kept.status_code == 302
    unasked = body(admin.post(f"/alerts/channels/{channel.pk}/secret"), 422)
    assert "Give a reason" in unasked
    admin.post(f"/alerts/channels/{channel.pk}/secret", REASON)
    renewed = body(admin.get(made["Location"]))
    assert channel.secret not in renewed
    assert Channel.objects.get().secret in renewed
    assert Channel.objects.get().secret not in body(admin.get(made["Location"]))
    assert AuditEntry.objects.get(action="alert_channel.renew_secret").reason == REASON["reason"]
    assert Channel.objects.get().url == given["url"]
    bad = body(admin.post(f"/alerts/channels/{channel.pk}", given | {"url": "ftp://x"}), 422)
    assert "It must begin with https:// or http://." in bad


def test_a_test_shows_its_cause_and_can_be_sent_again(admin: Client, operator: Client) -> None:
    given = {"name": "hook", "url": "http://127.0.0.1:9/", "min_severity": "info", "enabled": "on"}
    admin.post("/alerts/channels/new?kind=webhook", given)
    path = f"/alerts/channels/{Channel.objects.get().pk}"
    body(operator.get(path), 403)
    assert admin.post(f"{path}/test").status_code == 302
    text = body(admin.get(path))
    assert "Given up" in text
    assert "has a private address" in text
    message = Message.objects.get()
    assert admin.post(f"{path}/messages/{message.pk}/resend").status_code == 302
    assert Message.objects.get().state == "queued"
    body(admin.post(f"{path}/nothing"), 404)
    assert admin.post(f"{path}/delete", REASON).status_code == 302
    assert "Alerts are told nobody" in body(admin.get("/alerts/channels"))


def test_recipients_stand_one_a_line(admin: Client) -> None:
    given = {"name": "ops", "min_severity": "info", "enabled": "on"}
    path = "/alerts/channels/new?kind=email"
    bad = body(admin.post(path, given | {"recipients": "nobody"}), 422)
    assert "is no e-mail address" in bad
    answer = admin.post(path, given | {"recipients": "a@example.com\nb@example.com\n"})
    assert answer.status_code == 302
    assert Channel.objects.get().recipients == ["a@example.com", "b@example.com"]


def test_every_page_says_in_the_navigation_how_many_alerts_fire(
    engine: Engine, viewer: Client
) -> None:
    assert "data-firing hidden>0<" in body(viewer.get("/topics"))
    fired(engine)
    assert "data-firing>1<" in body(viewer.get("/topics"))


def test_a_list_of_many_stays_within_a_page_and_tells_of_the_rest(
    engine: Engine, operator: Client
) -> None:
    alert = fired(engine)
    fields = {field.attname: getattr(alert, field.attname) for field in Alert._meta.concrete_fields}
    fields |= {"id": None, "resolved_at": alert.fired_at, "samples": [0.0, 7.5] * 30}
    many = {AlertState.FIRING: 80, AlertState.PENDING: 30, AlertState.RESOLVED: 80}
    for state, count in many.items():
        Alert.objects.bulk_create(
            Alert(**fields | {"state": state, "object": f"transaction:{number}:{state}"})
            for number in range(count)
        )
    text = body(operator.get(reverse("console:alerts")))
    assert '<span class="num">57</span> more fire,' in text
    assert len(re.findall("<[a-z]", text)) <= 1000
    history = body(operator.get(reverse("console:alert-history")))
    assert history.count('<tr id="alert-') == 40
    assert len(re.findall("<[a-z]", history)) <= 980  # Scripts add a few.

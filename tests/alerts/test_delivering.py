"""From a notice to a receiver: bundling, signatures, retries, dead messages, two workers."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import smtplib
import socket
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.core import mail as outbox
from django.core.mail import EmailMessage
from django.db import connection
from django.db.models.functions import Now

from tests.alerts.conftest import alert, pass_time, webhook
from tests.alerts.receiver import Receiver
from tests.support.tls import self_signed
from txnconsole.alerts import bundling, delivering
from txnconsole.alerts.bundling import MAX_NOTICES, bundle
from txnconsole.alerts.composing import compose_test
from txnconsole.alerts.delivering import MAX_ATTEMPTS, deliver, pause_seconds, send_again
from txnconsole.alerts.models import Alert, Channel, Evaluation, Message, Notice
from txnconsole.alerts.signing import SIGNATURE_HEADER, TIMESTAMP_HEADER
from txnconsole.alerts.trimming import trim
from txnconsole.enginedb.clock import database_now

pytestmark = pytest.mark.django_db


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(settings, "ALERTS_PRIVATE_ADDRESSES", True)
    # However slow the machine is, it answers in time, and what is due is sent in one slice.
    monkeypatch.setattr("txnconsole.alerts.webhook._WHOLE_SECONDS", 60.0)
    monkeypatch.setattr("txnconsole.alerts.webhook._TIMEOUT", httpx.Timeout(60.0))
    monkeypatch.setattr(delivering, "_SLICE_SECONDS", 3600.0)
    with Receiver().running() as running:
        yield running


def notice(channel: Channel, about: Alert, kind: str = "firing") -> Notice:
    return Notice.objects.create(
        channel=channel, alert=about, kind=kind, value=61_000, at=database_now()
    )


def queued(channel: Channel) -> Message:
    content = compose_test(channel.name, "ann", "")
    return Message.objects.create(channel=channel, content=content)


def test_notices_wait_for_others_and_become_one_message() -> None:
    channel = webhook()
    notice(channel, alert(1))
    notice(channel, alert(2, severity="critical"))
    assert bundle() == 0
    pass_time(11)
    gone = alert(3, state="resolved", resolved_at=database_now())
    notice(channel, gone, "resolved")
    assert bundle() == 1
    assert bundle() == 0
    content = Message.objects.get().content
    assert content["subject"] == (
        "[critical] Partition held back: partition:public/default/flights:2 and 1 more"
    )
    assert [one["status"] for one in content["alerts"]] == ["firing", "firing", "resolved"]
    assert content["alerts"][0]["severity"] == "critical"
    assert "Firing (2)" in content["text"]
    assert "1 min 01 s, more than 1 min" in content["text"]
    assert "Resolved (1)" in content["text"]


def test_a_channel_whose_notices_cannot_be_told_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compose = bundling.compose

    def failing_for_the_first(notices: Sequence[Notice], address: str) -> dict[str, Any]:
        if notices[0].channel_id == first.pk:
            raise ValueError("a defect")
        return compose(notices, address)

    first, second = webhook(), webhook(name="another")
    for channel in (first, second):
        notice(channel, alert(channel.pk))
    pass_time(11)
    monkeypatch.setattr(bundling, "compose", failing_for_the_first)
    assert bundle() == 1
    assert Message.objects.get().channel == second


def test_what_came_and_went_meanwhile_is_told_as_it_is_now() -> None:
    channel = webhook()
    about = alert()
    notice(channel, about)
    notice(channel, about, "resolved")
    pass_time(11)
    bundle()
    assert [one["status"] for one in Message.objects.get().content["alerts"]] == ["resolved"]


def test_very_many_notices_do_not_wait_and_make_a_readable_text() -> None:
    channel = webhook()
    Notice.objects.bulk_create(
        Notice(channel=channel, alert=alert(n), kind="firing", value=1, at=database_now())
        for n in range(MAX_NOTICES + 1)
    )
    assert bundle() == 1
    content = Message.objects.get().content
    assert len(content["alerts"]) == MAX_NOTICES
    assert "- and 150 more" in content["text"]
    assert Notice.objects.filter(message=None).count() == 1


def test_a_receiver_can_check_the_signature_as_the_documentation_says(receiver: Receiver) -> None:
    channel = webhook(url=receiver.url, secret="txs_abc")
    message = queued(channel)
    assert deliver() == 1
    [(headers, body, path)] = receiver.received
    assert path == "/hooks/very-secret-path?key=also-secret"
    assert headers["Host"] == f"localhost:{receiver.port}"
    signed = f"{headers[TIMESTAMP_HEADER]}.".encode() + body
    expected = "v1=" + hmac.new(b"txs_abc", signed, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE_HEADER] == expected
    assert abs(int(headers[TIMESTAMP_HEADER]) - database_now().timestamp()) < 5
    assert json.loads(body)["id"] == headers["Txnconsole-Id"] == str(message.pk)
    message.refresh_from_db()
    assert (message.state, message.attempts, message.last_error) == ("sent", 1, "")


def test_a_failed_message_is_tried_again_later_and_later_until_it_is_dead(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "_FIRST_PAUSE_SECONDS", 900.0)
    receiver.statuses = [500]
    message = queued(webhook(url=receiver.url))
    for attempts in range(1, MAX_ATTEMPTS + 1):
        assert deliver() == 0
        message.refresh_from_db()
        assert message.attempts == attempts
        if attempts < MAX_ATTEMPTS:
            assert message.state == "queued"
            assert deliver() == 0  # Not due yet.
            assert len(receiver.received) == attempts
            pass_time(901)
    assert message.state == "dead"
    assert message.last_error == f"http://localhost:{receiver.port}/… answered 500."
    receiver.statuses = [200]
    assert send_again(message)
    assert not send_again(message)
    assert deliver() == 1


def test_pauses_double_up_to_a_quarter_of_an_hour() -> None:
    assert [pause_seconds(n, 1.0) for n in range(1, 10)] == [5, 10, 20, 40, 80, 160, 320, 640, 900]
    assert pause_seconds(1, 0.0) == 2.5
    assert pause_seconds(10**6, 1.0) == 900


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.statuses = [302]
    receiver.headers = {"Location": receiver.url}
    message = queued(webhook(url=receiver.url))
    deliver()
    message.refresh_from_db()
    assert message.last_error.endswith("answered 302; redirects are not followed.")
    assert len(receiver.received) == 1


def test_a_private_address_is_refused_unless_the_settings_allow_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ALERTS_PRIVATE_ADDRESSES", False)
    message = queued(webhook(url=receiver.url))
    deliver()
    message.refresh_from_db()
    assert message.last_error.startswith("The host localhost has a private address")
    assert receiver.received == []


def test_a_receiver_that_does_not_answer_costs_its_time_limit_and_no_more(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.alerts.webhook._WHOLE_SECONDS", 0.05)
    receiver.go_on = threading.Event()
    message = queued(webhook(url=receiver.url))
    deliver()
    receiver.go_on.set()
    message.refresh_from_db()
    assert message.last_error.endswith("did not answer in time.")


def test_a_name_that_nobody_tells_the_address_of_costs_the_time_limit_and_no_more(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.alerts.webhook._WHOLE_SECONDS", 0.05)
    go_on = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: go_on.wait(60) and [])
    message = queued(webhook(url=receiver.url))
    try:
        deliver()
        assert not go_on.is_set()
    finally:
        go_on.set()
    message.refresh_from_db()
    assert message.last_error.endswith("did not answer in time.")
    assert receiver.received == []


def test_a_host_s_next_address_is_tried_where_the_first_takes_no_connection(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a name with an IPv6 and an IPv4 address, whose server listens at one."""

    def both(*_args: object, **_options: object) -> list[tuple[object, ...]]:
        return [(None, None, None, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    message = queued(webhook(url=receiver.url))
    deliver()
    message.refresh_from_db()
    assert (message.state, message.last_error) == ("sent", "")
    assert len(receiver.received) == 1


def test_nothing_listens_there(receiver: Receiver) -> None:
    message = queued(webhook(url="http://localhost:9/secret"))
    deliver()
    message.refresh_from_db()
    assert message.last_error == "http://localhost:9/…: Connection refused."


def test_a_certificate_that_is_not_trusted_is_told_with_what_is_wrong_with_it(
    receiver: Receiver, tmp_path: Path
) -> None:
    with Receiver(certificate=self_signed(tmp_path)).running() as secured:
        message = queued(webhook(url=secured.url))
        deliver()
    message.refresh_from_db()
    host = f"https://localhost:{secured.port}/…"
    why = "its certificate is not trusted (self-signed certificate)"
    assert message.last_error == f"{host}: {why}."
    assert secured.received == []


def test_a_receiver_that_speaks_no_tls_is_told_as_that(receiver: Receiver) -> None:
    message = queued(webhook(url=receiver.url.replace("http:", "https:")))
    deliver()
    message.refresh_from_db()
    host = f"https://localhost:{receiver.port}/…"
    assert message.last_error.startswith(f"{host}: no TLS connection (")


def test_logs_hold_no_secret(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    receiver.statuses = [500, 200]
    queued(webhook(url=receiver.url, secret="txs_abc"))
    deliver()
    pass_time(901)
    deliver()
    for text in (caplog.text, capfd.readouterr().err):
        assert "secret" not in text
        assert "txs_abc" not in text


def test_a_worker_that_dies_while_sending_is_followed_by_another(receiver: Receiver) -> None:
    message = queued(webhook(url=receiver.url))
    assert delivering.claim(message.pk) is not None
    assert deliver() == 0
    assert delivering.claim(message.pk) is None
    pass_time(61)
    assert deliver() == 1
    message.refresh_from_db()
    assert message.attempts == 2


def test_who_has_lost_the_lease_writes_nothing_down(receiver: Receiver) -> None:
    message = queued(webhook(url=receiver.url))
    late = delivering.claim(message.pk)
    assert late is not None
    pass_time(61)
    assert deliver() == 1
    receiver.statuses = [500]
    assert not delivering.attempt(late)
    message.refresh_from_db()
    assert (message.state, message.last_error) == ("sent", "")


def test_messages_of_a_channel_that_is_off_wait(receiver: Receiver) -> None:
    channel = webhook(url=receiver.url, enabled=False)
    queued(channel)
    assert deliver() == 0
    Channel.objects.update(enabled=True)
    assert deliver() == 1


def test_receivers_that_fail_keep_nobody_else_waiting(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "_FIRST_PAUSE_SECONDS", 900.0)
    received = receiver.received
    bad = Receiver(statuses=[500], received=received)
    worse = Receiver(statuses=[500], received=received)
    names: dict[str, str] = {}

    def turns() -> list[str]:
        hosts = [headers["Host"] for headers, _, _ in received]
        received.clear()
        return [names[host] for host in hosts]

    with bad.running(), worse.running():
        for name, one in (("worse", worse), ("bad", bad), ("good", receiver)):
            names[f"localhost:{one.port}"] = name
        failing = [webhook(name=name, url=url.url) for name, url in (("w", worse), ("b", bad))]
        for channel in (*failing, *failing):
            queued(channel)
        assert deliver() == 0
        received.clear()
        pass_time(901)
        queued(webhook(name="g", url=receiver.url))  # Due after all of theirs.
        assert deliver() == 1
        assert turns() == ["good", "worse", "bad", "worse", "bad"]
        pass_time(901)
        bad.statuses = [204]
        assert deliver() == 2
        assert turns() == ["worse", "bad", "bad", "worse"]


def test_a_mail_goes_to_all_recipients_with_an_id_that_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channel = Channel.objects.create(name="ops", kind="email", recipients=["a@b.example", "c@d"])
    message = queued(channel)

    def fail(_: EmailMessage) -> int:
        raise smtplib.SMTPServerDisconnected

    with monkeypatch.context() as patched:
        patched.setattr(EmailMessage, "send", fail)
        deliver()
    message.refresh_from_db()
    assert message.last_error == "The mail server: SMTPServerDisconnected."
    pass_time(901)
    assert deliver() == 1
    [sent] = outbox.outbox
    assert sent.to == ["a@b.example", "c@d"]
    assert sent.subject == "Test of the channel ops"
    assert sent.extra_headers["Message-ID"].startswith(f"<txnconsole-alerts.{message.pk}.")


def test_without_a_mail_server_the_cause_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = "django.core.mail.backends.smtp.EmailBackend"
    monkeypatch.setattr(settings, "EMAIL_BACKEND", backend)
    monkeypatch.setattr(settings, "EMAIL_HOST", "")
    message = queued(Channel.objects.create(name="ops", kind="email", recipients=["a@b.example"]))
    deliver()
    message.refresh_from_db()
    assert message.last_error == "No mail server is configured; set EMAIL_HOST."


@pytest.mark.django_db(transaction=True)
def test_two_workers_send_one_message_once_and_one_at_a_time(receiver: Receiver) -> None:
    Evaluation.objects.get_or_create(pk=1)
    receiver.go_on = threading.Event()
    channel = webhook(url=receiver.url)
    for _ in range(2):
        queued(channel)
    arrived: list[int] = []

    def work() -> None:
        arrived.append(deliver())
        connection.close()

    first, second = (threading.Thread(target=work) for _ in range(2))
    first.start()
    while not receiver.received:
        first.join(0.01)
    second.start()
    second.join(60)
    assert arrived == [0]
    receiver.go_on.set()
    first.join(60)
    assert sorted(arrived) == [0, 2]
    assert len(receiver.received) == 2


def test_what_is_over_for_long_is_forgotten() -> None:
    channel = webhook()
    old = alert(1, state="resolved", resolved_at=Now() - timedelta(days=91))
    notice(channel, old, "resolved")
    alert(2, state="resolved", resolved_at=Now() - timedelta(days=89))
    alert(3)
    message = queued(channel)
    Message.objects.update(state="sent", ended_at=Now() - timedelta(days=31))
    assert trim() == 2
    assert not Message.objects.filter(pk=message.pk).exists()
    assert not Alert.objects.filter(pk=old.pk).exists()
    assert Alert.objects.count() == 2


def test_who_was_told_of_an_alert_is_known_as_long_as_the_alert_and_told_once() -> None:
    channel = webhook()
    notice(channel, alert(1))
    notice(channel, alert(2, state="resolved", resolved_at=Now() - timedelta(days=40)), "resolved")
    pass_time(11)
    assert bundle() == 1
    Message.objects.update(state="sent", ended_at=Now() - timedelta(days=31))
    assert (trim(), bundle()) == (0, 0)
    assert {one.message for one in Notice.objects.select_related("message")} == {
        Message.objects.get()
    }
    Alert.objects.update(state="resolved", resolved_at=Now() - timedelta(days=91))
    assert trim() == 3
    assert not Message.objects.exists()

"""What two people do about alerts at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.model.errors import EngineError
from tests.alerts.conftest import alert, rule_of, webhook
from tests.support.together import meet
from txnconsole.alerts import channels, handling, rules
from txnconsole.alerts.channels import ChannelSettings
from txnconsole.alerts.delivering import claim
from txnconsole.alerts.errors import AlertChannelNotFound
from txnconsole.alerts.kinds import Kind, Severity
from txnconsole.alerts.models import Channel, Message, Notice, Rule, Silence
from txnconsole.alerts.rules import RuleSettings
from txnconsole.alerts.states import ChannelKind
from txnconsole.audit.recording import Actor
from txnconsole.enginedb.clock import database_now

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann")


def silence(rule_id: int | None = None, name: str = "*") -> None:
    handling.silence(
        ANN, rule_id=rule_id, objects_matching=name, duration_ms=3_600_000, reason="planned"
    )


def make_rule(name: str) -> None:
    settings = RuleSettings(
        name=name, kind=Kind.HELD_BACK, threshold=1.0, severity=Severity.WARNING
    )
    rules.create_rule(ANN, settings)


def make_channel(name: str) -> None:
    settings = ChannelSettings(name=name, kind=ChannelKind.EMAIL, recipients=("ann@example.com",))
    channels.create_channel(ANN, settings)


def test_a_rule_is_not_deleted_beneath_a_silence_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rule_of(Kind.HELD_BACK)
    beside = meet(monkeypatch, Silence.objects, "create", lambda: rules.delete_rule(ANN, rule.pk))
    silence(rule.pk)
    beside.join(60)
    assert not Rule.objects.exists()
    assert not Silence.objects.exists()


def test_a_channel_is_not_deleted_beneath_what_it_is_to_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule, channel = rule_of(Kind.HELD_BACK), webhook()
    now = database_now()
    told = alert(rule=rule, notified_at=now)
    Notice.objects.create(channel=channel, alert=told, kind="firing", value=1, at=now)
    beside = meet(
        monkeypatch,
        Notice.objects,
        "bulk_create",
        lambda: channels.delete_channel(ANN, channel.pk),
    )
    rules.delete_rule(ANN, rule.pk)
    beside.join(60)
    assert not Rule.objects.exists()
    assert not Channel.objects.exists()


@pytest.mark.parametrize(
    ("place", "name"), [(Message.objects, "create"), (channels, "claim"), (channels, "attempt")]
)
def test_a_channel_that_is_deleted_while_it_is_tested_is_not_there_any_more(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    channel = webhook()

    def claim_after_it(message_id: int) -> Message | None:
        beside.join(
            60
        )  # A message whose deletion is under way is claimed by nobody, and still there.
        return claim(message_id)

    def attempt(message: Message, *, once: bool) -> bool:
        beside.join(60)
        return False

    if name == "create":
        monkeypatch.setattr(channels, "claim", claim_after_it)
    monkeypatch.setattr(channels, "attempt", attempt)
    beside = meet(monkeypatch, place, name, lambda: channels.delete_channel(ANN, channel.pk))
    with pytest.raises(AlertChannelNotFound):
        channels.send_test(ANN, channel.pk)
    beside.join(60)
    assert not Channel.objects.exists()


@pytest.mark.parametrize(
    ("limited", "model", "make"),
    [
        ((rules, "MAX_RULES"), Rule, make_rule),
        ((channels, "MAX_CHANNELS"), Channel, make_channel),
        ((handling, "MAX_SILENCES"), Silence, lambda name: silence(name=name)),
    ],
)
def test_of_two_that_are_made_at_once_none_is_one_too_many(
    monkeypatch: pytest.MonkeyPatch,
    limited: tuple[Any, str],
    model: Any,
    make: Callable[[str], None],
) -> None:
    monkeypatch.setattr(*limited, model.objects.count() + 1)
    refused = []

    def make_another() -> None:
        try:
            make("another")
        except EngineError as error:
            refused.append(error.code)

    beside = meet(monkeypatch, model.objects, "create", make_another)
    make("one")
    beside.join(60)
    assert refused == ["AlertConflict"]
    assert model.objects.count() == getattr(*limited)

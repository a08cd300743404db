"""Masking rules: who keeps them, and that no page or file shows a viewer what they hide."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from pytest_django import Settings

from engine import Engine
from engine.model.message import NewMessage
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName
from tests.console.conftest import TOPIC, begin, signed_in
from txnconsole.access.models import MaskingRule
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Role
from txnconsole.audit.models import AuditEntry
from txnconsole.console.live.channels import channel_named
from txnconsole.console.live.partition_feed import PartitionFeed

PARTITION = PartitionName(TOPIC, 0)
LOG = f"/topics/{TOPIC}/partitions/0/log"
NUMBER, KEY, TRACE = "4111222233334444", "customer-77", "trace-secret"


@pytest.fixture
def card(engine: Engine, db: None, settings: Settings) -> str:
    """A transaction with one message whose payload viewers may read; rules mask parts of it."""
    settings.VIEWER_PAYLOADS = ["public/default/*"]
    engine.topics.create(TOPIC, TopicSettings(partitions=1))
    txn_id = begin(engine)
    payload = json.dumps({"card": {"number": NUMBER, "name": "Ada"}}).encode()
    message = NewMessage(payload=payload, key=KEY, properties={"trace": TRACE, "at": "tower"})
    engine.produce(PARTITION, [message], txn_id=txn_id)
    for part, name in (("field", "card.number"), ("key", ""), ("property", "trace")):
        MaskingRule.objects.create(topics="public/*/orders", part=part, name=name, effect="replace")
    return str(txn_id)


def everything(browser: Client, txn_id: str) -> dict[str, str]:
    """Each page and file that shows something of messages."""
    addresses = [
        *(LOG, f"{LOG}/window", f"{LOG}/entries/0", f"{LOG}/export.csv?from=0&to=9"),
        *(f"{LOG}/export.json?from=0&to=9", f"/transactions/{txn_id}/bundle.json"),
        f"/transactions/{txn_id}/messages",
        f"/api/v1/topics/{TOPIC}/partitions/0/messages?view=log",
    ]
    return {address: browser.get(address).getvalue().decode() for address in addresses}


def test_a_viewer_sees_nowhere_what_is_masked(card: str, viewer: Client) -> None:
    from base64 import b64encode

    whole = b64encode(json.dumps({"card": {"number": NUMBER, "name": "Ada"}}).encode()).decode()
    for address, text in everything(viewer, card).items():
        for secret in (NUMBER, KEY, TRACE, whole):
            assert secret not in text, address
    entry = viewer.get(f"{LOG}/entries/0").content.decode()
    assert "Ada" in entry
    assert "tower" in entry
    assert "A rule hides parts of it from your role." in entry


def test_an_operator_sees_all_of_it_but_on_the_strip(card: str, operator: Client) -> None:
    found = everything(operator, card)
    assert NUMBER in found[f"{LOG}/entries/0"]
    assert KEY in found[f"{LOG}/entries/0"]
    assert TRACE in found[f"{LOG}/export.json?from=0&to=9"]
    assert KEY not in found[f"{LOG}/window"]


def test_who_may_read_no_messages_sees_neither_keys_nor_properties(
    card: str, engine: Engine
) -> None:
    """A producer, to whom REST refuses the fetch; its own transaction's page is no way round."""
    producer = signed_in("producer", name="alice")
    found = everything(producer, card)
    assert "hidden from your role" in found[f"/transactions/{card}/messages"]
    MaskingRule.objects.all().delete()
    for address, text in (found | everything(producer, card)).items():
        for secret in (NUMBER, KEY, TRACE, "tower", "Ada"):
            assert secret not in text, address
    entry = producer.get(f"{LOG}/entries/0").content.decode()
    assert "Key, properties and payload are hidden from your role." in entry


def test_frames_for_who_may_read_no_messages_have_no_keys(card: str, engine: Engine) -> None:
    MaskingRule.objects.all().delete()
    producer, viewer = (
        Principal("ann", frozenset({role})) for role in (Role.PRODUCER, Role.VIEWER)
    )
    for principal, key in ((producer, None), (viewer, KEY)):
        channel = channel_named(f"part:{PARTITION}", principal)
        feed = channel.make_feed()
        feed.read()
        engine.produce(PARTITION, [NewMessage(payload=b"x", key=KEY)])
        change = feed.read().change
        assert change is not None
        assert [entry[3] for entry in change["entries"]] == [key]
        assert channel.may_be_heard_by(principal)
    assert not channel.may_be_heard_by(producer)


def test_frames_have_masked_keys(card: str, engine: Engine) -> None:
    feed = PartitionFeed(PARTITION, reads_messages=True)
    feed.read()
    engine.produce(PARTITION, [NewMessage(payload=b"x", key=KEY)])
    change = feed.read().change
    assert change is not None
    assert [entry[3] for entry in change["entries"]] == ["***"]


def test_administrators_keep_the_rules_and_the_audit_log_has_them(db: None) -> None:
    admin = signed_in("admin")
    rule = {"topics": "public/*", "part": "field", "name": "card.number", "effect": "tail"}
    assert admin.post("/settings/masking", rule).status_code == 302
    kept = MaskingRule.objects.get()
    assert (kept.topics, kept.name, kept.created_by) == ("public/*", "card.number", "a-admin")
    assert "card.number" in admin.get("/settings/masking").content.decode()
    answer = admin.post(f"/settings/masking/{kept.pk}/delete", {"reason": "no longer a secret"})
    assert answer.status_code == 302
    assert not MaskingRule.objects.exists()
    actions = AuditEntry.objects.order_by("sequence").values_list("action", "object", "reason")
    assert list(actions) == [
        ("masking.create", "topics:public/*", ""),
        ("masking.delete", f"masking_rule:{kept.pk}", "no longer a secret"),
    ]


def test_a_rule_that_somebody_else_has_deleted_is_named_as_not_there(db: None) -> None:
    """Its dialog may have been open meanwhile."""
    admin, address = signed_in("admin"), "/settings/masking/7/delete"
    answers = [admin.get(address), admin.post(address, {"reason": "no longer a secret"})]
    for answer in answers:
        assert answer.status_code == 404
        assert "There is no masking rule 7." in answer.content.decode()


@pytest.mark.parametrize(
    ("part", "name"), [("field", ""), ("field", "card..x"), ("field", "a.**"), ("key", "x")]
)
def test_a_rule_that_names_nothing_is_refused(db: None, part: str, name: str) -> None:
    rule = {"topics": "*", "part": part, "name": name, "effect": "remove"}
    answer = signed_in("admin").post("/settings/masking", rule)
    assert answer.status_code == 422
    assert not MaskingRule.objects.exists()


def test_a_viewer_reads_the_rules_and_changes_none(viewer: Client) -> None:
    rule = MaskingRule.objects.create(topics="*", part="key", effect="remove")
    assert "New rule" not in viewer.get("/settings/masking").content.decode()
    asked = {"topics": "*", "part": "key", "name": "", "effect": "remove"}
    assert viewer.post("/settings/masking", asked).status_code == 403
    assert viewer.post(f"/settings/masking/{rule.pk}/delete", {}).status_code == 403
    assert MaskingRule.objects.count() == 1

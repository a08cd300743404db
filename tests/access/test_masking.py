"""Masking rules by what is left of a message."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from engine.model.message import EntryKind, MessageID, StoredMessage
from txnconsole.access.masking import Effect, Part, Rule, apply

CARD = {"card": {"number": "4111111111111111", "name": "Ada"}, "items": [{"iban": "DE1"}, {"n": 1}]}


def stored(payload: bytes, *, key: str | None = "4111-2222", **properties: str) -> StoredMessage:
    return StoredMessage(
        message_id=MessageID.parse("1:1:0:0"),
        offset=1,
        partition=0,
        kind=EntryKind.DATA,
        txn_id=None,
        key=key,
        payload=payload,
        properties=properties,
        event_time=None,
        publish_time=datetime(2026, 1, 1, tzinfo=UTC),
        producer_name=None,
        sequence_id=None,
    )


def masked(value: Any, name: str, effect: Effect = Effect.REPLACE) -> Any:
    """What is left of a JSON payload."""
    rule = Rule(Part.FIELD, name, effect)
    shown = apply(stored(json.dumps(value).encode()), [rule], payload=True)
    return json.loads(shown.message.payload) if shown.payload else None


@pytest.mark.parametrize(
    ("name", "effect", "left"),
    [
        ("card.number", Effect.REPLACE, {**CARD, "card": {"number": "***", "name": "Ada"}}),
        ("card.number", Effect.REMOVE, {**CARD, "card": {"name": "Ada"}}),
        ("card.n*", Effect.TAIL, {**CARD, "card": {"number": "************1111", "name": "***"}}),
        ("card", Effect.TAIL, {**CARD, "card": "***"}),
        ("items.iban", Effect.REMOVE, {**CARD, "items": [{}, {"n": 1}]}),
        ("**.iban", Effect.REPLACE, {**CARD, "items": [{"iban": "***"}, {"n": 1}]}),
        ("**.card", Effect.REMOVE, {"items": CARD["items"]}),
        ("Card.number", Effect.REPLACE, CARD),
    ],
)
def test_a_field_is_masked_wherever_its_path_leads(name: str, effect: Effect, left: object) -> None:
    assert masked(CARD, name, effect) == left


@pytest.mark.parametrize(
    "payload", [b"4111", b"card 4111", b"\xff", b'"4111"', b'{"card": ', b"[" * 100_000]
)
def test_what_has_no_fields_is_hidden_where_a_field_is_masked(payload: bytes) -> None:
    shown = apply(stored(payload), [Rule(Part.FIELD, "card", Effect.REPLACE)], payload=True)
    assert (shown.payload, shown.masked, shown.message.payload) == (False, True, b"")


def test_a_repeated_name_hides_nothing_from_its_rule() -> None:
    rule = Rule(Part.FIELD, "card", Effect.REPLACE)
    shown = apply(stored(b'{"card": "4111", "card": "4112"}'), [rule], payload=True)
    assert b"411" not in shown.message.payload


@pytest.mark.parametrize(
    ("effect", "key", "properties"),
    [
        (Effect.REPLACE, "***", {"trace": "***", "source": "tower"}),
        (Effect.REMOVE, None, {"source": "tower"}),
        (Effect.TAIL, "*****2222", {"trace": "***", "source": "tower"}),
    ],
)
def test_keys_and_properties_have_rules_of_their_own(
    effect: Effect, key: str | None, properties: dict[str, str]
) -> None:
    rules = [Rule(Part.KEY, "", effect), Rule(Part.PROPERTY, "tra*", effect)]
    shown = apply(stored(b"plain", trace="12345678", source="tower"), rules, payload=True)
    assert (shown.message.key, shown.message.properties) == (key, properties)
    assert (shown.payload, shown.masked, shown.message.payload) == (True, False, b"plain")


def test_a_rule_of_the_payload_hides_it_where_it_is_open() -> None:
    shown = apply(stored(b"{}"), [Rule(Part.PAYLOAD, "", Effect.REPLACE)], payload=True)
    assert not shown.payload
    assert shown.message.payload == b""

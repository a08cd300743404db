"""Refusals are written down by the API, counted up, and forgotten in time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.db.models.functions import Now

from engine import Engine
from engine.model.subscription import SubscriptionSettings
from engine.model.topic_name import SubscriptionName, TopicName
from tests.api.conftest import TOPIC, Caller
from txnconsole.refusals.models import Refusal
from txnconsole.refusals.recording import KEPT, newest

NAME = SubscriptionName(TopicName.parse(TOPIC), "billing")
ACKS = f"/topics/{TOPIC}/subscriptions/billing/ack"


@pytest.fixture
def refused(engine: Engine, topic: str, program: Caller) -> Callable[[], int]:
    """One transaction holds a message that another wants; each call lets it want it again."""
    engine.subscriptions.create(NAME, SubscriptionSettings())
    program.produce("a")
    [message] = engine.receive(NAME, "c1")
    holder, other = program.open(), program.open()
    body = {"consumer": "c1", "message_ids": [str(message.message_id)]}
    assert program.post(ACKS, {**body, "txn_id": holder}).status == 200

    def again() -> int:
        return program.post(ACKS, {**body, "txn_id": other}).status

    return again


def test_a_refusal_is_counted_up(refused: Callable[[], int]) -> None:
    assert [refused() for _ in range(3)] == [409] * 3
    [row] = newest(NAME, 10)
    assert (row.times, row.partition, row.first_offset) == (3, 0, 0)
    assert (row.consumer, row.who) == ("c1", "program")
    assert row.holder != row.refused
    assert row.last_at >= row.first_at


def test_what_is_old_goes_with_the_next(refused: Callable[[], int]) -> None:
    Refusal.objects.create(
        subscription=str(NAME),
        partition=0,
        holder="",
        refused="0:1",
        consumer="c",
        who="w",
        first_offset=0,
        last_at=Now() - KEPT - timedelta(seconds=1),
    )
    refused()
    assert Refusal.objects.filter(refused="0:1").count() == 0


def test_what_cannot_be_written_down_changes_no_answer(
    refused: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise DatabaseError("full")

    monkeypatch.setattr("txnconsole.refusals.recording._write", fail)
    assert refused() == 409

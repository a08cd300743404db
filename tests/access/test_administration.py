"""Tokens and roles that are given and taken away at the same time."""

from __future__ import annotations

import json
import threading

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from engine.model.errors import InvalidRequest
from tests.support.eventually import eventually
from tests.support.together import meet, waits_for_a_lock
from txnconsole.access import administration
from txnconsole.access.masking import Effect, Part
from txnconsole.access.models import MaskingRule, Token
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Role
from txnconsole.access.users import UserSettings, put_user
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.recording import Actor

ANN = Actor("ann")
ROOT = Principal("root", frozenset({Role.ADMIN}))
VIEWER = UserSettings(roles=frozenset({Role.VIEWER}))


@pytest.mark.django_db(transaction=True)
def test_a_token_that_is_made_while_its_user_loses_a_role_is_ended_with_the_others() -> None:
    with transaction.atomic():
        put_user("ann", UserSettings(roles=frozenset({Role.OPERATOR})))

    def take_away() -> None:
        administration.change_user(Actor("root"), ROOT, "ann", VIEWER, revoke_tokens=True)
        connection.close()

    beside = threading.Thread(target=take_away)
    with transaction.atomic():
        administration.create_token(ANN, "ann", [Role.OPERATOR], own=True)
        beside.start()
        assert eventually(waits_for_a_lock)
    beside.join(60)
    assert Token.objects.get().revoked_at is not None


@pytest.mark.django_db
def test_who_has_lost_a_role_since_they_asked_makes_no_token_with_it() -> None:
    put_user("ann", VIEWER)
    with pytest.raises(administration.NotYours):
        administration.create_token(ANN, "ann", [Role.VIEWER, Role.OPERATOR], own=True)
    assert not Token.objects.exists()
    administration.create_token(ANN, "ann", [Role.VIEWER], own=True)
    assert User.objects.get(username="ann").tokens.count() == 1  # type: ignore[attr-defined]


@pytest.mark.django_db(transaction=True)
def test_of_two_changes_at_once_the_second_tells_what_the_first_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with transaction.atomic():
        put_user("ann", UserSettings(roles=frozenset({Role.OPERATOR}), active=True))

    def change(role: Role) -> None:
        settings = UserSettings(roles=frozenset({role}))
        administration.change_user(Actor("root"), ROOT, "ann", settings, reason="at once")

    beside = meet(monkeypatch, administration, "put_user", lambda: change(Role.VIEWER))
    change(Role.CONSUMER)
    beside.join(60)
    second, first = AuditEntry.objects.filter(object="user:ann").order_by("-sequence")[:2]
    assert json.loads(second.before)["roles"] == json.loads(first.after)["roles"]


@pytest.mark.django_db(transaction=True)
def test_of_two_masking_rules_that_are_made_at_once_none_is_one_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(administration, "MAX_MASKING_RULES", 1)
    refused = []

    def mask(topics: str) -> None:
        try:
            administration.add_masking_rule(
                ANN, topics=topics, part=Part.KEY, name="", effect=Effect.REMOVE
            )
        except InvalidRequest:
            refused.append(topics)

    beside = meet(monkeypatch, MaskingRule.objects, "create", lambda: mask("public/*"))
    mask("*")
    beside.join(60)
    assert refused == ["public/*"]
    assert [rule.topics for rule in MaskingRule.objects.all()] == ["*"]

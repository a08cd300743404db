"""Tokens and roles that are given and taken away at the same time."""

from __future__ import annotations

import threading

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from tests.support.eventually import eventually
from tests.support.together import waits_for_a_lock
from txnconsole.access.errors import NotYours
from txnconsole.access.models import Token
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Role
from txnconsole.access.token_changes import create_token
from txnconsole.access.user_changes import change_user
from txnconsole.access.users import UserSettings, put_user
from txnconsole.audit.recording import Actor

ANN = Actor("ann")
ROOT = Principal("root", frozenset({Role.ADMIN}))
VIEWER = UserSettings(roles=frozenset({Role.VIEWER}))


@pytest.mark.django_db(transaction=True)
def test_a_token_that_is_made_while_its_user_loses_a_role_is_ended_with_the_others() -> None:
    with transaction.atomic():
        put_user("ann", UserSettings(roles=frozenset({Role.OPERATOR})))

    def take_away() -> None:
        change_user(Actor("root"), ROOT, "ann", VIEWER, revoke_tokens=True)
        connection.close()

    beside = threading.Thread(target=take_away)
    with transaction.atomic():
        create_token(ANN, "ann", [Role.OPERATOR], own=True)
        beside.start()
        assert eventually(waits_for_a_lock)
    beside.join(60)
    assert Token.objects.get().revoked_at is not None


@pytest.mark.django_db
def test_who_has_lost_a_role_since_they_asked_makes_no_token_with_it() -> None:
    put_user("ann", VIEWER)
    with pytest.raises(NotYours):
        create_token(ANN, "ann", [Role.VIEWER, Role.OPERATOR], own=True)
    assert not Token.objects.exists()
    create_token(ANN, "ann", [Role.VIEWER], own=True)
    assert User.objects.get(username="ann").tokens.count() == 1  # type: ignore[attr-defined]

from __future__ import annotations

import json

import pytest
from django.db import transaction

from tests.support.together import meet
from txnconsole.access import user_changes
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Role
from txnconsole.access.users import UserSettings, put_user
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.recording import Actor

ROOT = Principal("root", frozenset({Role.ADMIN}))


@pytest.mark.django_db(transaction=True)
def test_of_two_changes_at_once_the_second_tells_what_the_first_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with transaction.atomic():
        put_user("ann", UserSettings(roles=frozenset({Role.OPERATOR}), active=True))

    def change(role: Role) -> None:
        settings = UserSettings(roles=frozenset({role}))
        user_changes.change_user(Actor("root"), ROOT, "ann", settings, reason="at once")

    beside = meet(monkeypatch, user_changes, "put_user", lambda: change(Role.VIEWER))
    change(Role.CONSUMER)
    beside.join(60)
    second, first = AuditEntry.objects.filter(object="user:ann").order_by("-sequence")[:2]
    assert json.loads(second.before)["roles"] == json.loads(first.after)["roles"]

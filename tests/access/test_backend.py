from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from txnconsole.access.backend import UserBackend
from txnconsole.access.principal import principal_of
from txnconsole.access.roles import Role
from txnconsole.preferences.models import Preferences, preferences_of


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create(username="ann")


@pytest.mark.parametrize("groups", [[], ["operator"], ["viewer", "producer"]])
def test_a_sessions_user_brings_roles_and_preferences(
    ann: User, groups: list[str], django_assert_num_queries: Any
) -> None:
    ann.groups.set(Group.objects.get_or_create(name=name)[0] for name in groups)
    Preferences.objects.create(user=ann, theme="dark")
    with django_assert_num_queries(1):
        user = UserBackend().get_user(ann.pk)
        assert user is not None
        principal = principal_of(user)
        assert principal is not None
        assert principal.roles == {Role(name) for name in groups}
        assert preferences_of(user).theme == "dark"


def test_who_has_chosen_nothing_has_the_defaults(ann: User, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        user = UserBackend().get_user(ann.pk)
        assert user is not None
        assert preferences_of(user).zone == "UTC"


def test_a_user_who_is_disabled_or_gone_is_none(ann: User) -> None:
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert UserBackend().get_user(ann.pk) is None
    assert UserBackend().get_user(ann.pk + 1) is None

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User

from engine.model.topic_name import TopicName
from txnconsole.access.principal import Principal, principal_of
from txnconsole.access.roles import Permission, Role

FLIGHTS = TopicName("public", "default", "flights")


@pytest.mark.parametrize(
    ("patterns", "allowed"),
    [
        (("*",), True),
        (("public/default/flights",), True),
        (("public/default/*",), True),
        (("public/*",), True),
        (("*/flights",), True),
        (("public/default/flight",), False),
        (("public/default/Flights",), False),
        (("private/*", "public/default/f?ights"), True),
        (("other/*",), False),
        ((), False),
    ],
)
def test_a_topic_is_allowed_when_a_pattern_matches_all_of_its_name(
    patterns: tuple[str, ...], allowed: bool
) -> None:
    principal = Principal("p", frozenset({Role.PRODUCER}), patterns)
    assert principal.may_use(FLIGHTS) is allowed


def test_a_program_sees_its_own_transactions_and_a_person_everybodys() -> None:
    assert Principal("p", frozenset({Role.CONSUMER})).owner_filter == "p"
    assert Principal("v", frozenset({Role.VIEWER})).owner_filter is None


@pytest.mark.django_db
def test_a_console_users_roles_are_the_groups_of_their_names() -> None:
    user = User.objects.create(username="ann")
    user.groups.add(
        Group.objects.get_or_create(name="operator")[0], Group.objects.create(name="chess club")
    )
    principal = principal_of(user)
    assert principal is not None
    assert principal.roles == {Role.OPERATOR}
    assert principal.token_id is None


@pytest.mark.django_db
def test_a_superuser_is_an_admin_and_a_user_without_groups_may_nothing() -> None:
    root = principal_of(User.objects.create(username="root", is_superuser=True))
    nobody = principal_of(User.objects.create(username="nobody"))
    assert root is not None
    assert root.permissions == frozenset(Permission)
    assert nobody is not None
    assert nobody.permissions == frozenset()


def test_an_anonymous_or_disabled_user_is_no_principal() -> None:
    assert principal_of(AnonymousUser()) is None
    assert principal_of(User(username="gone", is_active=False)) is None

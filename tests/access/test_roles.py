from __future__ import annotations

from txnconsole.access.roles import GRANTS, READING, Permission, Role, permissions_of

_READING = {"read", "read_any"}


def test_every_role_has_its_grants_and_every_permission_a_role() -> None:
    assert set(GRANTS) == set(Role)
    assert frozenset().union(*GRANTS.values()) == frozenset(Permission)


def test_only_people_see_what_others_own() -> None:
    sees_all = {role for role in Role if Permission.TRANSACTION_READ_ANY in GRANTS[role]}
    assert sees_all == {Role.VIEWER, Role.OPERATOR, Role.ADMIN}


def test_a_viewer_changes_nothing_but_tokens_of_its_own() -> None:
    changes = {each for each in GRANTS[Role.VIEWER] if each.split(".")[1] not in _READING}
    assert changes == {Permission.TOKEN_OWN}


def test_what_a_read_only_console_allows_only_reads() -> None:
    assert {each.split(".")[1] for each in READING} <= _READING
    assert GRANTS[Role.OPERATOR] >= READING


def test_roles_add_up() -> None:
    both = permissions_of([Role.PRODUCER, Role.CONSUMER])
    assert {Permission.MESSAGE_PRODUCE, Permission.MESSAGE_CONSUME} <= both
    assert permissions_of([]) == frozenset()

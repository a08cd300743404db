"""Who a request comes from, and what it may touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

from engine.model.topic_name import TopicName
from txnconsole.access.roles import Permission, Role, permissions_of

ALL_TOPICS = ("*",)


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated user or program.

    Attributes:
        name: the user name; the owner of every transaction that the principal opens.
        roles: what it may do, see :data:`txnconsole.access.roles.GRANTS`.
        topics: patterns (``*``, ``?``, ``[…]``) over ``tenant/namespace/topic``; ``*`` also
            matches slashes. Only topics that match one of them may be touched.
        token_id: the token that it came with; None for a console session.
    """

    name: str
    roles: frozenset[Role]
    topics: tuple[str, ...] = ALL_TOPICS
    token_id: int | None = None
    permissions: frozenset[Permission] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "permissions", permissions_of(self.roles))

    @property
    def is_authenticated(self) -> bool:
        """Always true; what Django and DRF ask of a user."""
        return True

    @property
    def owner_filter(self) -> str | None:
        """Whose transactions this principal sees: its own name, or None for everybody's."""
        return None if Permission.TRANSACTION_READ_ANY in self.permissions else self.name

    def may(self, permission: Permission) -> bool:
        return permission in self.permissions

    def may_use(self, topic: TopicName) -> bool:
        """Whether one of the principal's patterns matches the topic."""
        return self.topics == ALL_TOPICS or matches(self.topics, str(topic))


def principal_of(user: AbstractBaseUser | AnonymousUser) -> Principal | None:
    """The principal of a console user; None for an anonymous or disabled one."""
    if not isinstance(user, User) or not user.is_active:
        return None
    if user.is_superuser:
        return Principal(user.get_username(), frozenset({Role.ADMIN}))
    return Principal(user.get_username(), roles_named(user.groups.values_list("name", flat=True)))


def roles_named(names: Iterable[str]) -> frozenset[Role]:
    """The roles among the names of groups; other groups grant nothing."""
    given = frozenset(names)
    return frozenset(role for role in Role if role in given)


@lru_cache(maxsize=4096)
def matches(patterns: tuple[str, ...], topic: str) -> bool:
    """Whether one of the patterns matches the topic's full name."""
    return any(fnmatchcase(topic, pattern) for pattern in patterns)

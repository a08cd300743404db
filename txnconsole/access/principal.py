"""Who a request comes from, and what it may touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

from engine.model.topic_name import TopicName
from txnconsole.access.roles import READING, Permission, Role, permissions_of

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
        read_only: whether it may only read, whatever its roles allow.
    """

    name: str
    roles: frozenset[Role]
    topics: tuple[str, ...] = ALL_TOPICS
    token_id: int | None = None
    read_only: bool = False
    permissions: frozenset[Permission] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        allowed = permissions_of(self.roles)
        object.__setattr__(self, "permissions", allowed & READING if self.read_only else allowed)

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

    def may_abort(self, owner: str | None) -> bool:
        """Whether it may abort a transaction of this owner; None: nobody knows whose it is."""
        return Permission.TRANSACTION_ABORT_ANY in self.permissions or (
            owner == self.name and Permission.TRANSACTION_ABORT in self.permissions
        )

    def may_use(self, topic: TopicName) -> bool:
        """Whether one of the principal's patterns matches the topic."""
        return self.topics == ALL_TOPICS or matches(self.topics, str(topic))


def principal_of(user: AbstractBaseUser | AnonymousUser) -> Principal | None:
    """The principal of a console user; None for an anonymous or disabled one.

    With ``TXNCONSOLE_READ_ONLY`` it may only read, in the console and over REST with its session;
    programs with tokens are not bound by it.
    """
    if not isinstance(user, User) or not user.is_active:
        return None
    roles = frozenset({Role.ADMIN}) if user.is_superuser else roles_named(_groups_of(user))
    return Principal(user.get_username(), roles, read_only=settings.READ_ONLY)


def _groups_of(user: User) -> Iterable[str]:
    """The names of the user's groups, which a session's user has with them (UserBackend)."""
    names: Iterable[str] | None = getattr(user, "group_names", None)
    return user.groups.values_list("name", flat=True) if names is None else names


def roles_named(names: Iterable[str]) -> frozenset[Role]:
    """The roles among the names of groups; other groups grant nothing."""
    given = frozenset(names)
    return frozenset(role for role in Role if role in given)


@lru_cache(maxsize=4096)
def matches(patterns: tuple[str, ...], topic: str) -> bool:
    """Whether one of the patterns matches the topic's full name."""
    return any(fnmatchcase(topic, pattern) for pattern in patterns)

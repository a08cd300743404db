"""Users and their roles, which are groups with the names of the roles.

A user is a person of the console, with a password, or the owner of programs' tokens, without one.
Users are disabled, never deleted, because transactions and the audit log name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db.models import Count, Q

from engine.model.errors import InvalidRequest
from txnconsole.access import tokens
from txnconsole.access.errors import UserNotFound
from txnconsole.access.principal import roles_named
from txnconsole.access.roles import Role
from txnconsole.access.sessions import end_sessions

#: The form of user names that Django's own commands accept, too.
USER_NAME = r"^[A-Za-z0-9_.@+-]{1,150}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSettings:
    """What a user is to be. None leaves a setting as it is, or as new users have it."""

    roles: frozenset[Role] | None = None
    active: bool | None = None
    password: str | None = None


def user_name(text: str) -> str:
    """Check the form of a user's name.

    Raises:
        InvalidRequest: it has another form.
    """
    if not re.fullmatch(USER_NAME, text):
        raise InvalidRequest(
            "A user's name has 1 to 150 letters, digits and any of @ . + - _.", field="user"
        )
    return text


def find_user(name: str) -> User:
    """The user of that name.

    Raises:
        UserNotFound: there is no such user.
    """
    user = User.objects.prefetch_related("groups").filter(username=name).first()
    if user is None:
        raise UserNotFound(f"There is no user {name}.")
    return user


def lock_user(name: str) -> User | None:
    """The user of that name, whom nobody else changes until the surrounding SQL transaction ends;
    None when there is none."""
    return User.objects.select_for_update(no_key=True).filter(username=name).first()


def list_users(*, above: str, limit: int) -> list[User]:
    """Users by name, including disabled ones and owners of programs' tokens."""
    users = User.objects.prefetch_related("groups").filter(username__gt=above).order_by("username")
    return list(users[:limit])


def members() -> dict[str, int]:
    """How many users have each role, as ``roles_of`` says; a role without users may be missing."""
    ordinary = Count("user", filter=Q(user__is_superuser=False))
    groups = Group.objects.filter(name__in=list(Role)).annotate(users=ordinary)
    found = dict(groups.values_list("name", "users"))
    superusers = User.objects.filter(is_superuser=True).count()
    return found | {Role.ADMIN: found.get(Role.ADMIN, 0) + superusers}


def put_user(name: str, settings: UserSettings, *, new: bool = False) -> tuple[User, bool]:
    """Create or change a user; call it in an SQL transaction. Returns whether it was created.

    A user without a password cannot log in. A change ends what the user had before: a new password
    ends sessions with the old one, disabling ends sessions, and tokens for as long as it lasts.

    Raises:
        InvalidRequest: the password is too easy to guess; or it is to be ``new`` and is not.
    """
    user, created = User.objects.select_for_update().get_or_create(username=name)
    if new and not created:
        raise InvalidRequest("There is a user of that name already.", field="user")
    if settings.password is not None:
        _check_password(settings.password, user)
        user.set_password(settings.password)
    elif created:
        user.set_unusable_password()
    if settings.active is not None:
        user.is_active = settings.active
        if not user.is_active:
            end_sessions(user)
    if settings.roles is not None:
        user.is_superuser = user.is_superuser and Role.ADMIN in settings.roles
        _set_roles(user, settings.roles)
    user.save()
    tokens.forget()
    return user, created


def roles_of(user: User) -> frozenset[Role]:
    """The roles that the user has in the console; tokens have roles of their own."""
    if user.is_superuser:
        return frozenset({Role.ADMIN})
    return roles_named(group.name for group in user.groups.all())


def _set_roles(user: User, roles: Iterable[Role]) -> None:
    """Join the groups of the roles and leave those of other roles; other groups stay."""
    others = user.groups.exclude(name__in=list(Role))
    user.groups.set([*others, *(Group.objects.get_or_create(name=role)[0] for role in roles)])


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        problem = " ".join(error.messages)
        raise InvalidRequest(problem, field="password") from error

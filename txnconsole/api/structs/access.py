"""Tokens, users and groups, and who the caller is."""

from __future__ import annotations

from typing import Annotated

import msgspec
from django.contrib.auth.models import User as StoredUser

from engine.model.moment import time_text
from txnconsole.access.models import Token as StoredToken
from txnconsole.access.models import TokenState
from txnconsole.access.roles import Permission, Role
from txnconsole.access.users import USER_NAME, UserSettings, roles_of
from txnconsole.api.structs.fields import (
    NO_NUL,
    Answer,
    Body,
    PageQuery,
    Time,
    optional_time,
)

_CENTURY_MS = 100 * 365 * 86_400_000

UserName = Annotated[str, msgspec.Meta(pattern=USER_NAME, examples=["billing"])]
Roles = Annotated[
    list[Role], msgspec.Meta(max_length=16, description="What it may do; they add up.")
]
TopicPattern = Annotated[str, msgspec.Meta(min_length=1, max_length=400, pattern=NO_NUL)]
TopicPatterns = Annotated[
    list[TopicPattern],
    msgspec.Meta(
        min_length=1,
        max_length=64,
        description="`tenant/namespace/topic` with `*` (slashes too), `?` and `[…]`.",
        examples=[["public/default/*"]],
    ),
]


class ListTokens(PageQuery):
    """``ended`` false: without those that were revoked or have expired."""

    user: UserName | None = None
    ended: bool = True


class CreateToken(Body):
    """``lifetime_ms`` null: it never expires."""

    user: UserName
    roles: Annotated[Roles, msgspec.Meta(min_length=1, examples=[["producer"]])]
    topics: TopicPatterns = msgspec.field(default_factory=lambda: ["*"])
    lifetime_ms: Annotated[int, msgspec.Meta(ge=1, le=_CENTURY_MS)] | None = None


class Token(Answer):
    """``hint`` is the beginning of the secret; ``last_used_at`` is exact to a minute."""

    id: int
    hint: str
    user: str
    roles: list[str]
    topics: list[str]
    state: TokenState
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None

    @classmethod
    def of(cls, token: StoredToken) -> Token:
        return cls(
            id=token.pk,
            hint=token.hint,
            user=token.user.get_username(),
            roles=token.roles,
            topics=token.topics,
            state=token.state,
            created_at=time_text(token.created_at),
            expires_at=optional_time(token.expires_at),
            revoked_at=optional_time(token.revoked_at),
            last_used_at=optional_time(token.last_used_at),
        )


class TokenPage(Answer):
    items: list[Token]
    next_cursor: str | None


class CreatedToken(Answer):
    """The secret is shown only in this answer; only its hash is stored. An answer that is repeated
    under an `Idempotency-Key` has null: then revoke that token and create another one."""

    token: Token
    secret: str | None


class Me(Answer):
    """The caller, and the token that it used, if any."""

    name: str
    roles: list[Role]
    permissions: list[Permission]
    topics: list[str]
    token: Token | None


class PutUser(Body):
    """What is left out stays as it is. A new user has no roles and no password, and is active."""

    roles: Roles | None = None
    active: bool | None = None
    password: Annotated[str, msgspec.Meta(min_length=8, max_length=256, pattern=NO_NUL)] | None = (
        None
    )

    def settings(self) -> UserSettings:
        return UserSettings(
            roles=None if self.roles is None else frozenset(self.roles),
            active=self.active,
            password=self.password,
        )


class User(Answer):
    """``roles`` are those in the console; each token has its own."""

    name: str
    roles: list[Role]
    active: bool
    has_password: bool
    created_at: Time
    last_login_at: Time | None

    @classmethod
    def of(cls, user: StoredUser) -> User:
        return cls(
            name=user.get_username(),
            roles=sorted(roles_of(user)),
            active=user.is_active,
            has_password=user.has_usable_password(),
            created_at=time_text(user.date_joined),
            last_login_at=optional_time(user.last_login),
        )


class UserPage(Answer):
    items: list[User]
    next_cursor: str | None


class Group(Answer):
    """A role, the group of that name, and how many users it has."""

    name: Role
    permissions: list[Permission]
    users: int


class Groups(Answer):
    items: list[Group]
    next_cursor: None = None

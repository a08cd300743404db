"""Issuing, recognising and revoking tokens.

Every call is authenticated, so a process remembers a recognised token for :data:`CACHE_SECONDS`.
Within that time every process notices that a token was revoked, that its expiry was moved forward,
or that its user was disabled.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from django.contrib.auth.models import User
from django.db.models import BooleanField, DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from txnconsole.access.errors import TokenNotFound
from txnconsole.access.models import Token
from txnconsole.access.principal import ALL_TOPICS, Principal, roles_named
from txnconsole.access.roles import Role, permissions_of

#: How long a process may go on trusting a token that it has looked up, in seconds.
CACHE_SECONDS = 2.0
#: ``last_used_at`` is updated no more often than this.
USE_RESOLUTION = timedelta(minutes=1)

_PREFIX = "txc_"
_SECRET_BYTES = 32
_HINT_LENGTH = len(_PREFIX) + 6
_MAX_LENGTH = 128
_CACHE_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class _Remembered:
    principal: Principal
    until: float


class _Cache:
    """Recognised tokens by digest; bounded, and safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Remembered] = {}

    def get(self, digest: str) -> Principal | None:
        found = self._entries.get(digest)
        return found.principal if found is not None and monotonic() < found.until else None

    def put(self, digest: str, principal: Principal, until: float) -> None:
        with self._lock:
            if len(self._entries) >= _CACHE_ENTRIES:
                self._entries.clear()
            self._entries[digest] = _Remembered(principal, until)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


_cache = _Cache()


def issue(
    user: User,
    roles: Iterable[Role],
    *,
    topics: Iterable[str] = ALL_TOPICS,
    lifetime: timedelta | None = None,
) -> tuple[Token, str]:
    """Create a token and return it with its secret, which nobody can read again."""
    secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    token = Token.objects.create(
        user=user,
        digest=_digest(secret),
        hint=secret[:_HINT_LENGTH],
        roles=sorted(set(roles)),
        topics=sorted(set(topics)),
        expires_at=None if lifetime is None else Now() + lifetime,
    )
    return token, secret


def recognise(secret: str) -> Principal | None:
    """The principal of a valid token's secret; None when it is unknown, expired or revoked."""
    if len(secret) > _MAX_LENGTH:
        return None
    digest = _digest(secret)
    return _cache.get(digest) or _look_up(digest)


def find_token(token_id: int) -> Token:
    """The token of that number, with its user, whatever its state.

    Raises:
        TokenNotFound: there is no such token.
    """
    token = _known().filter(pk=token_id).first()
    if token is None:
        raise TokenNotFound(f"There is no token {token_id}.")
    return token


def list_tokens(user: str | None, *, ended: bool = True) -> QuerySet[Token]:
    """Tokens of one user or of all, newest first, with or without revoked and expired ones."""
    found = _known().order_by("-pk")
    if not ended:
        found = found.filter(_has_not_expired(), revoked_at=None)
    return found if user is None else found.filter(user__username=user)


def renew(token: Token, lifetime: timedelta, *, below: timedelta) -> None:
    """Extend a token to ``lifetime`` from now on, when less than ``below`` of its time is left. A
    token that is revoked or has expired stays so."""
    Token.objects.filter(
        pk=token.pk, revoked_at=None, expires_at__gt=Now(), expires_at__lt=Now() + below
    ).update(expires_at=Now() + lifetime)


def revoke(token: Token) -> None:
    """End a token for good; revoking it again changes nothing."""
    Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=Now())
    _cache.clear()


def revoke_beyond(user: User, roles: Iterable[Role]) -> list[int]:
    """End the user's tokens that permit anything that the roles do not; call it in an SQL
    transaction.

    Returns:
        The numbers of these tokens.
    """
    allowed = permissions_of(roles)
    held = Token.objects.select_for_update().filter(user=user, revoked_at=None).order_by("pk")
    beyond = [one.pk for one in held if not permissions_of(roles_named(one.roles)) <= allowed]
    Token.objects.filter(pk__in=beyond).update(revoked_at=Now())
    _cache.clear()
    return beyond


def forget() -> None:
    """Forget what this process remembers, so that the next call asks the database."""
    _cache.clear()


def _known() -> QuerySet[Token]:
    """Tokens with their users, and whether they have expired by the database's clock."""
    past = ExpressionWrapper(Q(expires_at__lte=Now()), output_field=BooleanField())
    return Token.objects.select_related("user").annotate(is_past=Coalesce(past, False))


def _has_not_expired() -> Q:
    return Q(expires_at=None) | Q(expires_at__gt=Now())


def _look_up(digest: str) -> Principal | None:
    asked = monotonic()  # What is found is not true for longer because something here takes long.
    token = (
        Token.objects.select_related("user")
        .filter(_has_not_expired(), digest=digest, revoked_at=None, user__is_active=True)
        .annotate(
            remaining=ExpressionWrapper(F("expires_at") - Now(), DurationField()),
            unused_for=ExpressionWrapper(Now() - F("last_used_at"), DurationField()),
        )
        .first()
    )
    if token is None:
        return None
    if token.unused_for is None or token.unused_for >= USE_RESOLUTION:
        Token.objects.filter(pk=token.pk).update(last_used_at=Now())
    principal = Principal(
        token.user.get_username(), roles_named(token.roles), tuple(token.topics), token.pk
    )
    seconds = CACHE_SECONDS
    if token.remaining is not None:
        seconds = min(seconds, token.remaining.total_seconds())
    _cache.put(digest, principal, asked + seconds)
    return principal


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

"""Making and revoking tokens, recorded in the audit log, for the REST API and the console.

Every attempt has its entry, in one SQL transaction with the change. Permissions are checked before,
by the callers, except that nobody may give away rights that they do not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from engine.model.moment import time_text
from txnconsole.access.errors import NotYours
from txnconsole.access.models import Token
from txnconsole.access.principal import ALL_TOPICS, Principal
from txnconsole.access.roles import Role, permissions_of
from txnconsole.access.tokens import find_token, issue, revoke
from txnconsole.access.users import find_user, lock_user, roles_of
from txnconsole.audit.recording import Actor, Change, recorded_atomically


def grantable(principal: Principal) -> list[Role]:
    """The roles that the principal may give to a token of its own: those that permit nothing that
    it may not do itself."""
    return [role for role in Role if permissions_of([role]) <= principal.permissions]


def create_token(
    actor: Actor,
    user_name: str,
    roles: Iterable[Role],
    *,
    topics: Iterable[str] = ALL_TOPICS,
    lifetime: timedelta | None = None,
    own: bool = False,
) -> tuple[Token, str]:
    """Issue a token for a program of the user; its secret cannot be read again.

    Args:
        own: the user makes it, by the console. It may permit no more than the user may do by now.

    Raises:
        UserNotFound: there is no such user.
        NotYours: it would permit more than the user may do.
    """
    with recorded_atomically(Change(actor, "token.create", f"user:{user_name}")) as recording:
        # A change of the user meanwhile waits, and then ends this token as well; or it comes first.
        user = lock_user(user_name) or find_user(user_name)
        given = frozenset(roles)
        if own and not permissions_of(given) <= permissions_of(roles_of(user)):
            raise NotYours("A token may permit no more than you may do yourself.")
        issued, secret = issue(user, given, topics=topics, lifetime=lifetime)
        token = find_token(issued.pk)
        recording.after = {
            "token": token.pk,
            "roles": token.roles,
            "topics": token.topics,
            "expires_at": token.expires_at and time_text(token.expires_at),
        }
    return token, secret


def revoke_token(
    actor: Actor, token_id: int, *, reason: str = "", owner: str | None = None
) -> None:
    """End a token for good; revoking it again changes nothing.

    Args:
        owner: revoke it only if it belongs to this user.

    Raises:
        TokenNotFound: there is no such token.
        NotYours: it does not belong to ``owner``.
    """
    with recorded_atomically(
        Change(actor, "token.revoke", f"token:{token_id}", reason)
    ) as recording:
        token = find_token(token_id)
        name = token.user.get_username()
        if owner not in (None, name):
            raise NotYours(f"Token {token_id} is not yours.")
        recording.before = {"user": name, "hint": token.hint}
        revoke(token)

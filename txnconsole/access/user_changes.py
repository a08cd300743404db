"""Making and changing users, recorded in the audit log, for the REST API and the console.

Every attempt has its entry, in one SQL transaction with the change. Permissions are checked before,
by the callers, except that nobody may lock themselves out.
"""

from __future__ import annotations

from django.contrib.auth.models import User

from engine.model.errors import InvalidRequest
from txnconsole.access.errors import NotYours, UserNotFound
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Role
from txnconsole.access.tokens import revoke_beyond
from txnconsole.access.users import UserSettings, find_user, lock_user, put_user, roles_of
from txnconsole.audit.recording import Actor, Change, Facts, recorded_atomically


def change_user(
    actor: Actor,
    principal: Principal,
    name: str,
    settings: UserSettings,
    *,
    reason: str = "",
    before: frozenset[Role] | None = None,
    revoke_tokens: bool = False,
    new: bool = False,
) -> tuple[User, bool]:
    """Create or change a user; returns whether it was created.

    Args:
        before: the roles that are to be replaced; None: whatever it has.
        new: only create it.
        revoke_tokens: also end the user's tokens that permit anything that its new roles do
            not.

    Raises:
        NotYours: somebody would lock themselves out.
        InvalidRequest: the password is too easy to guess; it is to be new and is not; or it has
            other roles than ``before`` by now.
    """
    with recorded_atomically(Change(actor, "user.put", f"user:{name}", reason)) as recording:
        if not new:
            _refuse_locking_oneself_out(principal, name, settings)
        user = lock_user(name)  # What it is before is what is changed.
        recording.before = _facts(name)
        if user is not None and before not in (None, found := roles_of(user)):
            had = ", ".join(sorted(found)) or "no role"
            raise InvalidRequest(
                f"Somebody else has changed its roles: it has {had} now. Send it once more to have"
                " it as it stands here.",
                field="roles",
            )
        user, created = put_user(name, settings, new=new)
        recording.after = {
            **_facts(name),
            "created": created,
            "password_set": settings.password is not None,
        }
        if revoke_tokens:
            recording.after["tokens_revoked"] = revoke_beyond(user, roles_of(user))
    return user, created


def _facts(name: str) -> Facts:
    try:
        user = find_user(name)
    except UserNotFound:
        return {}
    return {"active": user.is_active, "roles": sorted(roles_of(user))}


def _refuse_locking_oneself_out(principal: Principal, name: str, settings: UserSettings) -> None:
    if principal.name != name:
        return
    if settings.active is False or (
        settings.roles is not None and Role.ADMIN not in settings.roles
    ):
        raise NotYours("Another admin must do this: nobody locks itself out.")

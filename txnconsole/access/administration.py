"""Changing tokens, users and masking rules, with audit entries, for the REST API and the
console.

Every attempt is in the audit log, in one SQL transaction with its change. Permissions are checked
before, by the callers, except that nobody may lock themselves out or give away rights that they do
not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.models import User

from engine.model.errors import InvalidRequest
from engine.model.moment import time_text
from txnconsole.access.errors import MaskingRuleNotFound, NotYours, UserNotFound
from txnconsole.access.masking import ANYWHERE, Effect, Part
from txnconsole.access.models import MaskingRule, Token
from txnconsole.access.principal import ALL_TOPICS, Principal
from txnconsole.access.roles import Role, permissions_of
from txnconsole.access.tokens import find_token, issue, revoke, revoke_beyond
from txnconsole.access.users import UserSettings, find_user, put_user, roles_of
from txnconsole.audit.recording import Actor, Change, Facts, recorded_atomically
from txnconsole.enginedb.advisory_lock import advisory_lock

#: All rules are checked for each message that a viewer reads.
MAX_MASKING_RULES = 100


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
        user = _lock(user_name) or find_user(user_name)
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
        user = _lock(name)  # What it is before is what is changed.
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


def _lock(name: str) -> User | None:
    return User.objects.select_for_update(no_key=True).filter(username=name).first()


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


def add_masking_rule(
    actor: Actor, *, topics: str, part: Part, name: str, effect: Effect
) -> MaskingRule:
    """Mask something for viewers from now on.

    Raises:
        InvalidRequest: the rule names nothing, or there are :data:`MAX_MASKING_RULES` already.
    """
    with recorded_atomically(Change(actor, "masking.create", f"topics:{topics}")) as recording:
        _check_name(part, name)
        advisory_lock("masking_rules")
        if MaskingRule.objects.count() >= MAX_MASKING_RULES:
            raise InvalidRequest(
                f"There are {MAX_MASKING_RULES} masking rules; delete one first.", field=""
            )
        rule = MaskingRule.objects.create(
            topics=topics, part=part, name=name, effect=effect, created_by=actor.name
        )
        rule.refresh_from_db()  # The database has given it its time.
        recording.after = {"rule": rule.pk, "part": part, "name": name, "effect": effect}
    return rule


def find_masking_rule(rule_id: int, *, lock: bool = False) -> MaskingRule:
    """The rule of that number.

    Raises:
        MaskingRuleNotFound: there is none, or not any more.
    """
    rules = MaskingRule.objects.select_for_update() if lock else MaskingRule.objects.all()
    rule = rules.filter(pk=rule_id).first()
    if rule is None:
        raise MaskingRuleNotFound(f"There is no masking rule {rule_id}.")
    return rule


def delete_masking_rule(actor: Actor, rule_id: int, reason: str = "") -> None:
    """Show viewers again what the rule has masked.

    Raises:
        MaskingRuleNotFound: there is none of that number, or not any more.
    """
    change = Change(actor, "masking.delete", f"masking_rule:{rule_id}", reason)
    with recorded_atomically(change) as recording:
        rule = find_masking_rule(rule_id, lock=True)
        recording.before = {
            "topics": rule.topics,
            "rule": rule.pk,
            "part": rule.part,
            "name": rule.name,
            "effect": rule.effect,
        }
        rule.delete()


def _check_name(part: Part, name: str) -> None:
    named = part in {Part.FIELD, Part.PROPERTY}
    if named is not bool(name):
        raise InvalidRequest(
            f"Name the {part} that is masked." if named else f"A rule of the {part} has no name.",
            field="name",
        )
    levels = name.split(".")
    if part is Part.FIELD and ("" in levels or levels[-1] == ANYWHERE):
        raise InvalidRequest("Write a path as card.number, items.*.iban or **.iban.", field="name")

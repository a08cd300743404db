from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models.functions import Now

from txnconsole.access import tokens
from txnconsole.access.models import Token
from txnconsole.access.roles import Role
from txnconsole.audit.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return User.objects.create(username="billing")


def test_a_token_is_recognised_with_its_roles_and_topics(user: User) -> None:
    token, secret = tokens.issue(user, [Role.PRODUCER], topics=["public/default/*"])
    principal = tokens.recognise(secret)
    assert principal is not None
    assert principal.name == "billing"
    assert principal.roles == {Role.PRODUCER}
    assert principal.topics == ("public/default/*",)
    assert principal.token_id == token.pk


def test_the_secret_has_256_random_bits_and_is_nowhere_in_the_database(user: User) -> None:
    token, secret = tokens.issue(user, [Role.VIEWER])
    assert len(secret) == len("txc_") + 43
    token.refresh_from_db()
    stored = " ".join(str(getattr(token, field.name)) for field in Token._meta.fields)
    assert secret not in stored
    assert secret[len(token.hint) :] not in stored


@pytest.mark.parametrize("wrong", ["", "txc_", "nonsense", "txc_" + "A" * 43, "x" * 100_000])
def test_anything_else_is_nobody(user: User, wrong: str) -> None:
    tokens.issue(user, [Role.VIEWER])
    assert tokens.recognise(wrong) is None


def test_a_revoked_token_is_refused(user: User) -> None:
    token, secret = tokens.issue(user, [Role.VIEWER])
    assert tokens.recognise(secret) is not None
    tokens.revoke(token)
    assert tokens.recognise(secret) is None


def test_a_revocation_by_another_process_is_noticed_within_the_caches_time(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(tokens, "monotonic", lambda: now)
    token, secret = tokens.issue(user, [Role.VIEWER])
    assert tokens.recognise(secret) is not None
    Token.objects.filter(pk=token.pk).update(revoked_at=Now())
    now += tokens.CACHE_SECONDS - 0.01
    assert tokens.recognise(secret) is not None
    now += 0.02
    assert tokens.recognise(secret) is None


def test_an_expired_token_is_refused_by_the_databases_clock(user: User) -> None:
    _, secret = tokens.issue(user, [Role.VIEWER], lifetime=timedelta(seconds=-1))
    assert tokens.recognise(secret) is None


def test_a_token_is_never_remembered_beyond_its_expiry(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(tokens, "monotonic", lambda: now)
    monkeypatch.setattr(tokens, "CACHE_SECONDS", 3600)
    token, secret = tokens.issue(user, [Role.VIEWER], lifetime=timedelta(minutes=1))
    assert tokens.recognise(secret) is not None
    Token.objects.filter(pk=token.pk).update(expires_at=Now())
    now += 60
    assert tokens.recognise(secret) is None


@pytest.mark.parametrize("lifetime", [None, timedelta(minutes=1)])
def test_a_token_is_trusted_from_when_it_was_looked_up_however_long_noting_its_use_takes(
    user: User, monkeypatch: pytest.MonkeyPatch, lifetime: timedelta | None
) -> None:
    now = 1000.0
    monkeypatch.setattr(tokens, "monotonic", lambda: now)
    token, secret = tokens.issue(user, [Role.VIEWER], lifetime=lifetime)
    put = tokens._cache.put

    def put_late(*arguments: Any) -> None:
        nonlocal now
        now += 60  # A lock of the token's row was waited for, or the process stood still.
        Token.objects.filter(pk=token.pk).update(revoked_at=Now())
        put(*arguments)

    monkeypatch.setattr(tokens._cache, "put", put_late)
    tokens.recognise(secret)
    assert tokens.recognise(secret) is None


def test_a_disabled_users_token_is_refused(user: User) -> None:
    _, secret = tokens.issue(user, [Role.VIEWER])
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert tokens.recognise(secret) is None


def test_the_last_use_is_noted_once_a_minute(user: User) -> None:
    token, secret = tokens.issue(user, [Role.VIEWER])
    for _ in range(2):
        tokens.forget()
        tokens.recognise(secret)
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None
    tokens.forget()
    tokens.recognise(secret)
    token.refresh_from_db()
    assert token.last_used_at == first
    Token.objects.filter(pk=token.pk).update(last_used_at=Now() - timedelta(minutes=2))
    tokens.forget()
    tokens.recognise(secret)
    token.refresh_from_db()
    assert token.last_used_at is not None
    assert token.last_used_at >= first


def test_create_token_prints_the_token_and_nothing_else() -> None:
    printed = _run("create_token", "--user", "new", "--role", "producer", "--topics", "a/b/*")
    assert printed.endswith("\n")
    assert len(printed.split()) == 1
    principal = tokens.recognise(printed.strip())
    assert principal is not None
    assert (principal.name, principal.topics) == ("new", ("a/b/*",))
    assert not User.objects.get(username="new").has_usable_password()
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.who) == ("token.create", "manage.py")
    assert printed.strip() not in entry.after


def test_create_token_takes_several_roles_and_refuses_an_unknown_one() -> None:
    printed = _run("create_token", "--user", "x", "--role", "producer", "--role", "consumer")
    principal = tokens.recognise(printed.strip())
    assert principal is not None
    assert principal.roles == {Role.PRODUCER, Role.CONSUMER}
    with pytest.raises(CommandError, match="king"):
        _run("create_token", "--user", "x", "--role", "king")


@pytest.mark.parametrize(
    ("option", "value"), [("--user", ""), ("--user", "a/b"), ("--days", "0"), ("--days", "1e9")]
)
def test_create_token_refuses_what_the_rest_api_refuses(option: str, value: str) -> None:
    """Of a user without a name the console has no page, and its list of users failed."""
    with pytest.raises(CommandError, match=option):
        _run("create_token", "--user", "x", "--role", "viewer", option, value)
    assert not Token.objects.exists()


def test_revoke_token_ends_all_tokens_of_a_user(user: User) -> None:
    secrets = [tokens.issue(user, [Role.VIEWER])[1] for _ in range(2)]
    _run("revoke_token", "--user", "billing")
    assert [tokens.recognise(secret) for secret in secrets] == [None, None]
    with pytest.raises(CommandError, match="No such"):
        _run("revoke_token", "--user", "billing")


def _run(*arguments: str) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models.functions import Now

from tests.api.conftest import TOPIC, Caller
from txnconsole.access import tokens
from txnconsole.access.models import Token
from txnconsole.audit.chain import verify
from txnconsole.audit.models import AuditEntry


@pytest.fixture
def admin(as_role: Callable[..., Caller]) -> Caller:
    User.objects.get_or_create(username="billing")
    return as_role("admin", user="root")


def create(admin: Caller, **body: object) -> tuple[int, Caller]:
    """Create a token of ``billing``; its number, and a caller with it."""
    answer = admin.post("/tokens", {"user": "billing", "roles": ["producer"]} | body)
    assert answer.status == 201, answer.content
    return answer.json["token"]["id"], Caller(answer.json["secret"])


def test_a_created_token_works_within_its_roles_and_topics(admin: Caller, topic: str) -> None:
    answer = admin.post(
        "/tokens",
        {"user": "billing", "roles": ["producer"], "topics": [f"{topic}*"], "lifetime_ms": 60_000},
    )
    token, secret = answer.json["token"], answer.json["secret"]
    assert (token["user"], token["roles"], token["topics"], token["state"]) == (
        "billing",
        ["producer"],
        [f"{topic}*"],
        "valid",
    )
    assert secret.startswith(token["hint"])
    assert token["expires_at"] > token["created_at"]
    program = Caller(secret)
    assert program.get(f"/topics/{topic}").status == 200
    assert program.get("/topics/public/default/other").is_problem(403, "PermissionDenied")
    assert program.get(f"/topics/{TOPIC}/partitions/0/messages").status == 403
    me = program.get("/me").json
    assert (me["name"], me["roles"], me["topics"]) == ("billing", ["producer"], [f"{topic}*"])
    assert "message.produce" in me["permissions"]
    assert me["token"]["id"] == token["id"]
    assert me["token"]["last_used_at"] is not None


def test_a_token_that_has_been_made_is_answered_whatever_comes_then(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could read its secret any more, and the same call again would make another."""

    def away(_: int) -> Token:
        raise OperationalError

    monkeypatch.setattr("txnconsole.api.views.tokens.find_token", away)
    assert create(admin)[1].get("/topics").status == 200


def test_the_secret_is_shown_once_and_is_in_no_other_answer(admin: Caller) -> None:
    answer = admin.post("/tokens", {"user": "billing", "roles": ["viewer"]})
    secret, number = answer.json["secret"], answer.json["token"]["id"]
    for path in (f"/tokens/{number}", "/tokens", "/audit", "/users"):
        text = admin.get(path).content.decode()
        assert secret not in text
        assert secret[len("txc_") + 6 :] not in text


def test_a_revoked_token_is_refused_at_once_and_revoking_again_changes_nothing(
    admin: Caller,
) -> None:
    number, program = create(admin)
    assert program.get("/me").status == 200
    assert admin.delete(f"/tokens/{number}").status == 204
    assert program.get("/me").is_problem(401, "NotAuthenticated")
    revoked = admin.get(f"/tokens/{number}").json
    assert revoked["state"] == "revoked"
    assert admin.delete(f"/tokens/{number}").status == 204
    assert admin.get(f"/tokens/{number}").json["revoked_at"] == revoked["revoked_at"]


def test_states_follow_the_databases_clock_and_the_user(admin: Caller) -> None:
    number, _ = create(admin, lifetime_ms=3_600_000)
    assert admin.get(f"/tokens/{number}").json["state"] == "valid"
    User.objects.filter(username="billing").update(is_active=False)
    assert admin.get(f"/tokens/{number}").json["state"] == "disabled"
    Token.objects.filter(pk=number).update(expires_at=Now() - timedelta(seconds=1))
    assert admin.get(f"/tokens/{number}").json["state"] == "expired"


def test_tokens_are_listed_newest_first_page_by_page_and_by_user(admin: Caller) -> None:
    made = [create(admin)[0] for _ in range(5)]
    seen: list[int] = []
    cursor = ""
    while len(seen) < 5:
        page = admin.get(f"/tokens?user=billing&limit=2{cursor}").json
        seen += [token["id"] for token in page["items"]]
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == made[::-1]
    assert page["next_cursor"] is None
    everybodys = admin.get("/tokens").json["items"]
    assert {token["user"] for token in everybodys} == {"billing", "root"}
    assert admin.get("/tokens?user=nobody").json["items"] == []
    assert admin.get("/tokens?cursor=WyJ4Il0").is_problem(400, "InvalidRequest")


def test_tokens_that_have_ended_are_left_out_when_asked_so(admin: Caller) -> None:
    (valid, _), (revoked, _), (expired, _) = (create(admin) for _ in range(3))
    assert admin.delete(f"/tokens/{revoked}").status == 204
    Token.objects.filter(pk=expired).update(expires_at=Now() - timedelta(seconds=1))

    def listed(query: str) -> list[int]:
        return [token["id"] for token in admin.get(f"/tokens?user=billing{query}").json["items"]]

    assert listed("&ended=false") == [valid]
    assert listed("") == listed("&ended=true") == [expired, revoked, valid]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"user": "billing", "roles": []},
        {"user": "billing", "roles": ["king"]},
        {"user": "billing", "roles": ["viewer"], "topics": []},
        {"user": "billing", "roles": ["viewer"], "topics": [""]},
        {"user": "billing", "roles": ["viewer"], "topics": ["a\0b"]},
        {"user": "billing", "roles": ["viewer"], "lifetime_ms": 0},
        {"user": "billing", "roles": ["viewer"], "lifetime_ms": 10**15},
        {"user": "bil ling", "roles": ["viewer"]},
    ],
)
def test_a_malformed_token_is_refused(admin: Caller, body: object) -> None:
    assert admin.post("/tokens", body).is_problem(400, "InvalidRequest")


def test_tokens_that_are_not_there_are_named_so(admin: Caller) -> None:
    assert admin.get("/tokens/999999").is_problem(404, "TokenNotFound")
    assert admin.delete("/tokens/999999").is_problem(404, "TokenNotFound")
    unknown = admin.post("/tokens", {"user": "nobody", "roles": ["viewer"]})
    assert unknown.is_problem(404, "UserNotFound")
    for wrong in ("0", "-1", "x", "1" * 30, "%00", "%D9%A1"):
        assert admin.get(f"/tokens/{wrong}").is_problem(400, "InvalidRequest")


def test_a_token_limited_to_topics_makes_no_token_and_no_user(
    as_role: Callable[..., Caller],
) -> None:
    """Else it would pass its limits by making one without."""
    limited = as_role("admin", user="limited", topics="public/*")
    refused = limited.post("/tokens", {"user": "limited", "roles": ["admin"]})
    assert refused.is_problem(403, "PermissionDenied")
    assert limited.put("/users/limited", {"password": "correct horse 9"}).status == 403
    assert limited.get("/me").json["topics"] == ["public/*"]


def test_every_change_of_a_token_is_audited_and_so_is_a_refused_one(admin: Caller) -> None:
    number, _ = create(admin)
    admin.delete(f"/tokens/{number}")
    admin.delete("/tokens/999999")
    found = list(AuditEntry.objects.filter(action__startswith="token.").order_by("-sequence")[:3])
    refused, revoked, created = found
    assert (created.who, created.action, created.object) == ("root", "token.create", "user:billing")
    assert f'"token":{number}' in created.after
    assert (revoked.object, revoked.result) == (f"token:{number}", "done")
    assert (refused.object, refused.result) == ("token:999999", "TokenNotFound")
    assert verify().fault is None


def test_me_of_a_session_has_no_token(db: None, engine: object) -> None:
    from django.test import Client

    tokens.forget()
    client = Client()
    client.force_login(User.objects.create(username="ann", is_superuser=True))
    me = client.get("/api/v1/me").json()
    assert (me["name"], me["roles"], me["token"]) == ("ann", ["admin"], None)

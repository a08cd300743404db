from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from tests.api.conftest import Caller
from txnconsole.audit.models import AuditEntry

_PASSWORD = "correct horse 9"


@pytest.fixture
def admin(as_role: Callable[..., Caller]) -> Caller:
    return as_role("admin", user="root")


def test_a_user_is_created_with_roles_and_logs_in_with_its_password(admin: Caller) -> None:
    answer = admin.put("/users/ann", {"roles": ["operator", "viewer"], "password": _PASSWORD})
    assert answer.status == 201
    user = answer.json
    assert (user["name"], user["roles"]) == ("ann", ["operator", "viewer"])
    assert (user["active"], user["has_password"]) == (True, True)
    assert admin.get("/users/ann").json == user
    client = Client()
    assert client.login(username="ann", password=_PASSWORD)
    assert client.get("/api/v1/me").json()["roles"] == ["operator", "viewer"]


def test_what_is_left_out_stays_as_it_is(admin: Caller) -> None:
    admin.put("/users/ann", {"roles": ["operator"], "password": _PASSWORD})
    Group.objects.create(name="chess club").user_set.add(User.objects.get(username="ann"))
    for change, roles, active in (
        ({}, ["operator"], True),
        ({"active": False}, ["operator"], False),
        ({"roles": ["viewer"]}, ["viewer"], False),
        ({"roles": []}, [], False),
        ({"active": True}, [], True),
    ):
        answer = admin.put("/users/ann", change)
        assert (answer.status, answer.json["roles"], answer.json["active"]) == (200, roles, active)
        assert answer.json["has_password"]
    assert User.objects.get(username="ann").groups.filter(name="chess club").exists()


def test_a_disabled_users_tokens_and_sessions_are_refused(
    admin: Caller, as_role: Callable[..., Caller]
) -> None:
    program = as_role("viewer", user="ann")
    client = Client()
    client.force_login(User.objects.get(username="ann"))
    assert (program.get("/me").status, client.get("/api/v1/audit").status_code) == (200, 403)
    admin.put("/users/ann", {"active": False})
    assert (program.get("/me").status, client.get("/api/v1/audit").status_code) == (401, 401)
    admin.put("/users/ann", {"active": True})
    assert program.get("/me").status == 200


def test_a_new_password_ends_the_sessions_with_the_old_one(admin: Caller) -> None:
    admin.put("/users/ann", {"roles": ["viewer"], "password": _PASSWORD})
    client = Client()
    assert client.login(username="ann", password=_PASSWORD)
    assert client.get("/api/v1/me").status_code == 200
    admin.put("/users/ann", {"password": "another horse 8"})
    assert client.get("/api/v1/me").status_code == 401
    assert not Client().login(username="ann", password=_PASSWORD)


@pytest.mark.parametrize("change", [{"active": False}, {"roles": ["operator"]}, {"roles": []}])
def test_nobody_locks_itself_out(admin: Caller, change: object) -> None:
    assert admin.put("/users/root", change).is_problem(403, "PermissionDenied")
    assert admin.get("/me").status == 200
    assert admin.put("/users/root", {"roles": ["admin", "viewer"]}).status == 200


def test_a_superuser_whose_roles_are_set_has_no_more_than_those(admin: Caller) -> None:
    User.objects.create(username="old-root", is_superuser=True)
    assert admin.get("/users/old-root").json["roles"] == ["admin"]
    assert admin.put("/users/old-root", {"roles": ["viewer"]}).json["roles"] == ["viewer"]
    assert not User.objects.get(username="old-root").is_superuser


def test_users_are_listed_by_name_page_by_page(admin: Caller) -> None:
    for name in ("d", "a", "c", "b"):
        admin.put(f"/users/{name}", {})
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = admin.get(f"/users?limit=2{cursor}").json
        seen += [user["name"] for user in page["items"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert seen == sorted(seen)
    assert {"a", "b", "c", "d", "root"} <= set(seen)
    assert admin.get("/users?cursor=WzFd").is_problem(400, "InvalidRequest")


def test_groups_are_the_roles_with_their_permissions_and_members(admin: Caller) -> None:
    admin.put("/users/ann", {"roles": ["operator"]})
    groups = {group["name"]: group for group in admin.get("/groups").json["items"]}
    assert set(groups) == {"viewer", "producer", "consumer", "operator", "admin"}
    assert groups["operator"]["users"] == 1
    assert "partition.operate" in groups["operator"]["permissions"]


def test_a_superuser_counts_among_administrators_and_nowhere_else(admin: Caller) -> None:
    before = {group["name"]: group["users"] for group in admin.get("/groups").json["items"]}
    root = User.objects.create(username="old-root", is_superuser=True)
    root.groups.add(Group.objects.get_or_create(name="viewer")[0])
    after = {group["name"]: group["users"] for group in admin.get("/groups").json["items"]}
    assert after == before | {"admin": before["admin"] + 1}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a b", {}),
        ("%00", {}),
        ("x" * 151, {}),
        ("ann", {"password": "short"}),
        ("ann", {"password": "password1"}),
        ("ann", {"password": "p\0ssw0rd-9"}),
        ("ann", {"roles": ["king"]}),
        ("ann", {"groups": []}),
    ],
)
def test_a_malformed_user_is_refused_and_not_made(admin: Caller, name: str, body: object) -> None:
    assert admin.put(f"/users/{name}", body).is_problem(400, "InvalidRequest")
    assert not User.objects.filter(username="ann").exists()


def test_an_unknown_user_is_404(admin: Caller) -> None:
    assert admin.get("/users/nobody").is_problem(404, "UserNotFound")


def test_changes_of_users_are_audited_without_the_password(admin: Caller) -> None:
    admin.put("/users/ann", {"roles": ["viewer"]})
    admin.put("/users/ann", {"roles": ["operator"], "password": _PASSWORD})
    admin.put("/users/root", {"active": False})
    refused, changed, created = AuditEntry.objects.filter(action="user.put").order_by("-sequence")[
        :3
    ]
    assert json.loads(created.before) == {}
    assert json.loads(changed.before) == {"active": True, "roles": ["viewer"]}
    assert json.loads(changed.after) == {
        "active": True,
        "created": False,
        "password_set": True,
        "roles": ["operator"],
    }
    assert _PASSWORD not in changed.after
    assert (refused.object, refused.result) == ("user:root", "PermissionDenied")

"""The settings: preferences, tokens, users, limits; who may do what, and what is written down."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from engine import Engine
from tests.console.conftest import fault_beside, signed_in
from tests.support.together import meet
from txnconsole.access.models import Token
from txnconsole.access.principal import ALL_TOPICS
from txnconsole.access.roles import Role
from txnconsole.access.tokens import issue, recognise, revoke
from txnconsole.access.users import UserSettings, put_user
from txnconsole.audit.models import AuditEntry
from txnconsole.console.views import users
from txnconsole.preferences.models import Preferences

PROFILE = {"theme": "dark", "density": "comfortable", "zone": "Asia/Kolkata", "pace": "10"}
REASON = {"reason": "left the team today"}
TABS = ["profile", "tokens", "users", "limits"]


@pytest.fixture
def admin(engine: Engine, db: None) -> Client:
    return signed_in("admin")


def secret_in(page: str) -> str:
    found = re.search(r'id="secret">([^<]+)<', page)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("tab", TABS)
def test_an_admin_reads_every_tab_with_few_questions(
    admin: Client, tab: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(12):
        assert admin.get(f"/settings/{tab}").status_code == 200


def test_a_viewer_sees_only_its_own_tabs(engine: Engine, viewer: Client) -> None:
    text = viewer.get("/settings/profile").content.decode()
    assert "/settings/tokens" in text
    assert "/settings/users" not in text
    refused = viewer.get("/settings/users")
    assert refused.status_code == 403
    assert "access.manage" in refused.content.decode()


def test_preferences_hold_on_every_page(engine: Engine, viewer: Client) -> None:
    assert viewer.post("/settings/profile", PROFILE).status_code == 302
    text = viewer.get("/").content.decode()
    assert 'data-theme="dark"' in text
    assert 'data-density="comfortable"' in text
    assert 'data-zone="Asia/Kolkata"' in text
    assert 'data-pace="10"' in text
    assert '<option value="10" selected>every 10 s</option>' in text


def test_moments_are_written_in_the_users_zone(
    engine: Engine, db: None, admin: Client, operator: Client
) -> None:
    admin.post("/settings/profile", PROFILE)
    token, _ = issue(User.objects.get(username="a-admin"), [Role.VIEWER])
    token.refresh_from_db()
    admin.post(f"/settings/tokens/{token.pk}", REASON)
    entry = AuditEntry.objects.get(action="token.revoke")
    assert f">{entry.at:%Y-%m-%d %H:%M:%S}</time>" in operator.get("/audit").content.decode()
    local = admin.get("/audit").content.decode()
    assert f">{entry.at:%Y-%m-%d %H:%M:%S}</time>" not in local
    assert "At (Asia/Kolkata)" in local


@pytest.mark.parametrize(
    "change",
    [
        {"zone": "Mars/Olympus"},
        {"theme": "pink"},
        {"zone": "../x"},
        {"zone": "localtime"},  # Python knows it, and no browser.
        {"zone": "posixrules"},
        {"zone": "right/Europe/Berlin"},
    ],
)
def test_what_cannot_be_preferred_is_422(
    engine: Engine, viewer: Client, change: dict[str, str]
) -> None:
    assert viewer.post("/settings/profile", PROFILE | change).status_code == 422
    assert not Preferences.objects.exists()


def test_the_pace_of_the_top_bar_is_kept(engine: Engine, viewer: Client) -> None:
    assert 'data-pace="1"' in viewer.get("/").content.decode()
    assert viewer.post("/settings/pace", {"pace": "30"}).status_code == 204
    assert viewer.post("/settings/pace", {"pace": "7"}).status_code == 400
    assert viewer.post("/settings/pace", {}).status_code == 400
    assert 'data-pace="30"' in viewer.get("/").content.decode()


def test_the_theme_button_keeps_the_theme(engine: Engine, viewer: Client) -> None:
    assert viewer.post("/settings/theme", {"theme": "light"}).status_code == 204
    assert viewer.post("/settings/theme", {"theme": "pink"}).status_code == 400
    assert 'data-theme="light"' in viewer.get("/").content.decode()


def test_a_token_is_shown_once_and_works(engine: Engine, operator: Client) -> None:
    form = {"roles": ["operator"], "topics": "public/default/*, x/*", "days": "7"}
    made = operator.post("/settings/tokens", form)
    assert (made.status_code, made.content) == (302, b"")
    answer = operator.get(made["Location"])
    assert answer["Cache-Control"] == "no-store"
    secret = secret_in(answer.content.decode())
    principal = recognise(secret)
    assert principal is not None
    assert (principal.name, principal.roles) == ("a-operator", {Role.OPERATOR})
    assert principal.topics == ("public/default/*", "x/*")
    token = Token.objects.get()
    assert token.expires_at is not None
    assert token.expires_at - token.created_at == timedelta(days=7)
    again = operator.get(made["Location"])
    assert secret not in again.content.decode()
    assert 'id="secret"' not in again.content.decode()
    assert Token.objects.count() == 1
    entry = AuditEntry.objects.get(action="token.create")
    assert entry.who == "a-operator"
    assert secret not in entry.after


def test_a_secret_that_was_made_is_shown_to_whom_it_was_made_for_alone(
    engine: Engine, operator: Client, viewer: Client
) -> None:
    made = operator.post("/settings/tokens", {"roles": ["viewer"], "topics": "*", "days": "7"})
    viewer.cookies["shown-once"] = made.cookies["shown-once"].value
    assert 'id="secret"' not in viewer.get(made["Location"]).content.decode()
    operator.cookies["shown-once"] = "made:up"
    assert 'id="secret"' not in operator.get(made["Location"]).content.decode()


@pytest.mark.parametrize(
    ("who", "roles"),
    [
        ("viewer", "operator"),
        ("viewer", "consumer"),
        ("operator", "admin"),
        ("operator", "producer"),
    ],
)
def test_nobody_gives_a_token_more_than_it_has(
    engine: Engine, db: None, who: str, roles: str
) -> None:
    answer = signed_in(who).post("/settings/tokens", {"roles": [roles], "topics": "*", "days": ""})
    assert answer.status_code == 422
    assert not Token.objects.exists()


def test_only_an_admin_makes_tokens_for_others(engine: Engine, db: None, viewer: Client) -> None:
    User.objects.create_user("billing")
    form = {"roles": ["viewer"], "topics": "*", "days": "", "user": "billing"}
    viewer.post("/settings/tokens", form)
    assert Token.objects.get().user.get_username() == "a-viewer"
    admin = signed_in("admin")
    admin.post("/settings/tokens", form | {"roles": ["producer"]})
    assert Token.objects.filter(user__username="billing", roles=["producer"]).exists()
    unknown = admin.post("/settings/tokens", form | {"user": "nobody"})
    assert unknown.status_code == 422
    assert "no user nobody" in unknown.content.decode()


def test_who_revokes_a_token_in_a_dialog_stays_on_the_page_that_it_was_listed_on(
    admin: Client,
) -> None:
    token, _ = issue(User.objects.create_user("feed"), [Role.VIEWER])
    page = "/settings/users/feed?x=1"
    headers = {"HX-Request": "true", "Referer": f"http://testserver{page}"}
    answer = admin.post(f"/settings/tokens/{token.pk}", REASON, headers=headers)
    assert answer.headers["HX-Redirect"] == page
    assert f">Token {token.pk} is revoked.</span>" in admin.get(page).content.decode()
    token, _ = issue(token.user, [Role.VIEWER])
    elsewhere = headers | {"Referer": "http://elsewhere/settings"}
    answer = admin.post(f"/settings/tokens/{token.pk}", REASON, headers=elsewhere)
    assert answer.headers["HX-Redirect"] == "/settings/tokens"


def test_a_token_is_revoked_with_a_reason_by_its_owner_or_an_admin(
    engine: Engine, db: None, viewer: Client, operator: Client
) -> None:
    token, secret = issue(User.objects.get(username="a-viewer"), [Role.VIEWER])
    address = f"/settings/tokens/{token.pk}"
    assert operator.post(address, REASON).status_code == 403
    refused = AuditEntry.objects.get(action="access.manage")
    assert (refused.who, refused.object) == ("a-operator", f"POST {address}")
    assert viewer.post(address, {"reason": "short"}).status_code == 422
    assert recognise(secret) is not None
    assert viewer.post(address, REASON).status_code == 302
    assert recognise(secret) is None
    assert AuditEntry.objects.filter(action="token.revoke", reason=REASON["reason"]).exists()


def test_tokens_that_have_ended_are_listed_where_they_are_asked_for(
    db: None, viewer: Client, admin: Client
) -> None:
    owner = User.objects.get(username="a-viewer")
    past, _ = issue(owner, [Role.VIEWER], lifetime=timedelta(0))
    revoked, _ = issue(owner, [Role.VIEWER])
    revoke(revoked)
    lasting, _ = issue(owner, [Role.VIEWER], lifetime=timedelta(days=1))
    endless, _ = issue(owner, [Role.VIEWER])

    def listed(client: Client, address: str) -> list[int]:
        return [
            int(n) for n in re.findall(r'id="token-(\d+)"', client.get(address).content.decode())
        ]

    used = [endless.pk, lasting.pk]
    every = [*used, revoked.pk, past.pk]
    assert listed(viewer, "/settings/tokens") == used
    assert listed(viewer, "/settings/tokens?ended=1") == every
    assert listed(admin, "/settings/users/a-viewer") == used
    assert listed(admin, "/settings/tokens?user=a-viewer&ended=1") == every


def test_an_admin_makes_a_user_who_can_sign_in(admin: Client) -> None:
    made = admin.post("/settings/users", {"name": "ann", "roles": ["viewer"], "person": "on"})
    assert made["Location"] == "/settings/users/ann"
    password = secret_in(admin.get(made["Location"]).content.decode())
    assert password not in admin.get(made["Location"]).content.decode()
    assert Client().login(username="ann", password=password)
    assert password not in AuditEntry.objects.get(action="user.put").after
    again = admin.post("/settings/users", {"name": "ann", "person": "on"})
    assert again.status_code == 422
    assert "already" in again.content.decode()
    assert Client().login(username="ann", password=password)


@pytest.mark.parametrize("revoke", [True, False])
def test_with_its_roles_a_user_loses_the_tokens_that_permit_more(
    admin: Client, revoke: bool
) -> None:
    ann = User.objects.create_user("ann")
    kept, _ = issue(ann, [Role.VIEWER])
    beyond, secret = issue(ann, [Role.VIEWER, Role.OPERATOR])
    other, _ = issue(User.objects.create_user("bob"), [Role.OPERATOR])
    assert recognise(secret) is not None
    assert "it has 2 valid tokens." in admin.get("/settings/users/ann/roles").content.decode()
    form = REASON | {"roles": ["viewer"]} | ({"revoke_tokens": "on"} if revoke else {})
    admin.post("/settings/users/ann/roles", form)
    ended = set(Token.objects.exclude(revoked_at=None).values_list("pk", flat=True))
    assert ended == ({beyond.pk} if revoke else set())
    assert (recognise(secret) is None) is revoke
    assert {kept.pk, other.pk}.isdisjoint(ended)
    entry = AuditEntry.objects.get(action="user.put")
    assert (f'"tokens_revoked":[{beyond.pk}]' in entry.after.replace(" ", "")) is revoke


def test_an_owner_of_tokens_gets_no_password(admin: Client) -> None:
    made = admin.post("/settings/users", {"name": "feed"})
    assert 'id="secret"' not in admin.get(made["Location"]).content.decode()
    assert not User.objects.get(username="feed").has_usable_password()


def test_a_user_is_disabled_given_roles_and_a_password(admin: Client) -> None:
    user = User.objects.create_user("ann", password="old horse staple")
    _, secret = issue(user, [Role.VIEWER], topics=ALL_TOPICS)
    page = admin.post("/settings/users/ann/roles", REASON | {"roles": ["operator"]})
    assert page.status_code == 302
    assert [group.name for group in user.groups.all()] == ["operator"]
    made = admin.post("/settings/users/ann/password", REASON)
    assert made["Location"] == "/settings/users/ann"
    password = secret_in(admin.get(made["Location"]).content.decode())
    assert Client().login(username="ann", password=password)
    assert not Client().login(username="ann", password="old horse staple")
    assert admin.post("/settings/users/ann/disable", REASON).status_code == 302
    assert recognise(secret) is None
    assert admin.post("/settings/users/ann/activate", REASON).status_code == 302
    assert recognise(secret) is not None
    assert AuditEntry.objects.filter(action="user.put", reason=REASON["reason"]).count() == 4


@pytest.mark.django_db(transaction=True)
def test_of_two_who_make_one_user_at_once_only_the_first_does(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_beside() -> None:
        with transaction.atomic():
            put_user("ann", UserSettings(password="correct horse staple"))

    beside = meet(monkeypatch, users, "change_user", make_beside)
    answer = admin.post("/settings/users", {"name": "ann", "roles": ["viewer"], "person": "on"})
    beside.join(60)
    assert answer.status_code == 422
    assert "There is a user of that name already." in answer.content.decode()
    assert User.objects.get(username="ann").check_password("correct horse staple")


def test_a_session_of_before_a_user_was_disabled_stays_ended(
    admin: Client, operator: Client, viewer: Client
) -> None:
    for what in ("disable", "activate"):
        assert admin.post(f"/settings/users/a-viewer/{what}", REASON).status_code == 302
    assert viewer.get("/topics").status_code == 302
    assert operator.get("/topics").status_code == 200
    viewer.force_login(User.objects.get(username="a-viewer"))
    assert viewer.get("/topics").status_code == 200


def test_nobody_locks_itself_out(admin: Client) -> None:
    for what in ("disable", "roles"):
        answer = admin.post(f"/settings/users/a-admin/{what}", REASON | {"roles": ["viewer"]})
        assert answer.status_code == 409
        assert "Another admin must do this" in answer.content.decode()


def test_who_disables_a_user_that_somebody_has_just_disabled_lets_nobody_in_again(
    admin: Client,
) -> None:
    User.objects.create_user("ann")
    [address] = re.findall(r'action="(/settings/users/ann/(?!roles|password)\w+)"', shown(admin))
    for _ in range(2):
        assert admin.post(address, REASON).status_code == 302
        assert not User.objects.get(username="ann").is_active
    [other] = re.findall(r'action="(/settings/users/ann/(?!roles|password)\w+)"', shown(admin))
    for _ in range(2):
        assert admin.post(other, REASON).status_code == 302
        assert User.objects.get(username="ann").is_active


def shown(admin: Client) -> str:
    return admin.get("/settings/users/ann").content.decode()


def test_roles_that_somebody_else_has_changed_are_replaced_only_when_asked_once_more(
    admin: Client,
) -> None:
    ann = User.objects.create_user("ann")
    address = "/settings/users/ann/roles"
    before = {"before": hidden(admin.get(address), "before"), "roles": ["operator"]}
    ann.groups.add(Group.objects.get_or_create(name="viewer")[0])
    refused = admin.post(address, REASON | before)
    assert refused.status_code == 409
    assert "it has viewer now" in fault_beside(refused, "roles")
    assert [group.name for group in ann.groups.all()] == ["viewer"]
    again = {"before": hidden(refused, "before"), "roles": ["operator"]}
    assert admin.post(address, REASON | again).status_code == 302
    assert [group.name for group in ann.groups.all()] == ["operator"]


def hidden(answer: Any, name: str) -> list[str]:
    """What the form sends along."""
    found: list[str] = re.findall(rf'type="hidden" name="{name}" value="([^"]*)"', text_of(answer))
    return found


def text_of(answer: Any) -> str:
    text: str = answer.content.decode()
    return text


def test_a_user_that_there_is_is_not_made_again_whoever_asks(admin: Client) -> None:
    User.objects.create_user("ann")
    for name in ("ann", "a-admin"):
        refused = admin.post("/settings/users", {"name": name, "roles": ["viewer"]})
        assert "There is a user of that name already." in fault_beside(refused, "name")


def test_a_token_without_a_role_or_for_nobody_says_so_where_that_is_put_right(
    admin: Client,
) -> None:
    form = {"topics": "public/**", "days": "30"}
    refused = admin.post("/settings/tokens", form)
    assert "Choose a role at least." in fault_beside(refused, "roles")
    refused = admin.post("/settings/tokens", form | {"roles": ["viewer"], "user": "nobody"})
    assert "no user nobody" in fault_beside(refused, "user")


def test_retention_has_an_address_of_its_own(viewer: Client) -> None:
    answer = viewer.get("/settings/retention")
    assert (answer.status_code, answer["Location"]) == (302, "/settings/limits#h-retention")
    assert 'id="h-retention"' in viewer.get("/settings/limits").content.decode()


def test_limits_say_what_sets_them(admin: Client) -> None:
    text = admin.get("/settings/limits").content.decode()
    assert "TXNCONSOLE_MAX_OPEN_PER_OWNER" in text
    assert "10,000" in text
    assert "7 d" in text


def test_a_user_a_token_and_a_rule_that_there_is_none_of_are_not_found(
    engine: Engine, admin: Client
) -> None:
    reason = {"reason": "No longer needed."}
    assert admin.get("/settings/users/nobody").status_code == 404
    assert admin.post("/settings/tokens/999999", reason).status_code == 404
    assert admin.post("/settings/masking/999999/delete", reason).status_code == 404

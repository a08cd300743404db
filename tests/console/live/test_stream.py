"""One browser's stream: who gets one, and that it ends with the session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import NoReturn

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group, User
from django.db import OperationalError, connections
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client

from engine import Engine
from tests.console.conftest import signed_in
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission, Role
from txnconsole.console.live.channels import Channel, channel_named
from txnconsole.console.live.feed import Reading
from txnconsole.console.live.hub import Hub, look
from txnconsole.console.live.stream import frames
from txnconsole.console.live.transaction_feeds import TransactionsFeed
from txnconsole.console.views import live as live_view

pytestmark = pytest.mark.django_db(transaction=True)


class Ticking:
    """A feed that changes on every reading."""

    def __init__(self) -> None:
        self.readings = 0

    def read(self) -> Reading:
        self.readings += 1
        return Reading(str(self.readings), {"n": self.readings})


CHANNEL = Channel("test", Permission.TOPIC_READ, Ticking)


@pytest.fixture
def session() -> str:
    """The key of a signed-in viewer's session."""
    return signed_in("viewer").session.session_key or ""


def follow(
    session: str,
    scenario: Callable[[AsyncIterator[str], Hub], object],
    *,
    recheck_seconds: float = 0,
) -> None:
    """Run a scenario over a stream that checks its session before every frame."""

    async def run() -> None:
        hub = Hub(interval=0.01)
        stream = frames(CHANNEL, session, get_hub=lambda: hub, recheck_seconds=recheck_seconds)
        async with asyncio.timeout(60), aclosing(stream):  # type: ignore[type-var]
            await scenario(stream, hub)  # type: ignore[misc]
        assert hub.streams == 0

    async_to_sync(run)()


def test_a_stream_begins_with_the_pause_before_a_retry(session: str) -> None:
    async def scenario(stream: AsyncIterator[str], hub: Hub) -> None:
        assert await anext(stream) == "retry: 2000\n\n"
        assert "event: hello" in await anext(stream)
        assert "event: delta" in await anext(stream)
        assert hub.streams == 1

    follow(session, scenario, recheck_seconds=3600)  # While it checks, more may come than it keeps.


def reason_of(text: str) -> str:
    """Why a stream says goodbye, in its last frame."""
    kind, data = text.strip().removeprefix("event: ").split("\ndata: ")
    assert kind == "bye"
    return str(json.loads(data)["reason"])


def test_a_stream_says_bye_when_its_user_has_signed_out(session: str) -> None:
    async def scenario(stream: AsyncIterator[str], hub: Hub) -> None:
        await anext(stream)
        assert "event: hello" in await anext(stream)
        await asyncio.to_thread(sign_out)
        assert reason_of([text async for text in stream][-1]) == "signed out"

    def sign_out() -> None:
        client = Client()
        client.cookies["sessionid"] = session
        client.post("/logout")
        connections.close_all()

    follow(session, scenario)


def test_a_stream_says_bye_when_its_session_cannot_be_looked_up(
    session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(request: HttpRequest) -> NoReturn:
        raise OperationalError("the coordinators' database is away")

    monkeypatch.setattr("txnconsole.console.live.stream.get_user", away)

    async def scenario(stream: AsyncIterator[str], _hub: Hub) -> None:
        assert await anext(stream) == "retry: 2000\n\n"
        assert reason_of([text async for text in stream][-1]) == "away"

    follow(session, scenario)


@pytest.mark.parametrize(
    ("change", "reason"),
    [("disabled", "signed out"), ("demoted", "not permitted"), ("password", "signed out")],
)
def test_a_stream_ends_when_its_user_may_not_read_any_more(
    session: str, change: str, reason: str
) -> None:
    """A user who has lost a role is still signed in, and is not told to sign in again."""

    async def scenario(stream: AsyncIterator[str], hub: Hub) -> None:
        await anext(stream)
        await asyncio.to_thread(take_away)
        assert reason_of([text async for text in stream][-1]) == reason

    def take_away() -> None:
        user = User.objects.get(username="a-viewer")
        if change == "disabled":
            user.is_active = False
        elif change == "demoted":
            user.groups.clear()
        else:
            user.set_password("another")
        user.save()
        connections.close_all()

    follow(session, scenario)


def test_a_stream_ends_when_its_user_may_not_know_of_alerts_any_more(session: str) -> None:
    async def run() -> list[str]:
        hub = Hub(interval=0.01)
        stream = frames(CHANNEL, session, hears_alerts=True, get_hub=lambda: hub, recheck_seconds=0)
        async with asyncio.timeout(60), aclosing(stream):  # type: ignore[type-var]
            await anext(stream)
            await asyncio.to_thread(demote)
            return [text async for text in stream]

    assert reason_of(async_to_sync(run)()[-1]) == "not permitted"


def test_a_full_process_says_so_instead_of_joining(session: str) -> None:
    async def run() -> list[str]:
        hub = Hub(max_streams=0)
        return [text async for text in frames(CHANNEL, session, get_hub=lambda: hub)]

    (only,) = async_to_sync(run)()
    assert '"full"' in only


def get_live(client: Client | None, query: str, **headers: str) -> HttpResponse:
    """What the live address answers."""

    async def ask() -> HttpResponse:
        browser = AsyncClient()
        if client is not None:
            browser.cookies = client.cookies
        answer: HttpResponse = await browser.get(f"/live?{query}", headers=headers)
        return answer

    return async_to_sync(ask)()


@pytest.mark.parametrize(
    ("role", "query", "status"),
    [
        (None, "ch=overview", 401),
        ("producer", "ch=txns", 200),
        ("producer", "ch=txn:3:1042", 200),
        ("producer", "ch=audit", 403),
        ("viewer", "", 400),
        ("viewer", "ch=everything", 400),
        ("viewer", "ch=txn:x", 400),
        ("viewer", "ch=part:flights", 400),
        ("viewer", "ch=part:public/default/flights:0", 200),
        ("viewer", "ch=txn:3:1042", 200),
    ],
)
def test_only_channels_that_exist_and_are_permitted_stream(
    role: str | None, query: str, status: int
) -> None:
    client = None if role is None else signed_in(role)
    assert get_live(client, query).status_code == status


def test_beyond_the_cap_the_answer_is_503_with_a_time_to_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_view, "hub", lambda: Hub(max_streams=0))
    answer = get_live(signed_in("viewer"), "ch=overview")
    assert answer.status_code == 503
    assert answer["Retry-After"] == "10"


def test_who_gets_no_stream_asks_where_the_channel_stands(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_view, "hub", lambda: Hub(max_streams=0))
    viewer = signed_in("viewer")
    first = get_live(viewer, "ch=txns", Accept="application/json")
    assert first.status_code == 200
    assert json.loads(first.content)["change"]["figures"]["open"] == 0
    assert json.loads(first.content)["position"] == TransactionsFeed().read().position
    engine.coordinator.open(owner="alice")
    then = get_live(viewer, "ch=txns", Accept="application/json")
    assert json.loads(then.content)["change"]["figures"]["open"] == 1
    assert json.loads(then.content)["position"] != json.loads(first.content)["position"]


@pytest.mark.parametrize(("role", "may_know"), [("viewer", True), ("producer", False)])
def test_who_gets_no_stream_is_told_how_many_alerts_fire(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, role: str, may_know: bool
) -> None:
    monkeypatch.setattr(live_view, "look", partial(look, count_firing=lambda: 3))
    found = json.loads(get_live(signed_in(role), "ch=txns", Accept="application/json").content)
    assert found.get("firing") == (3 if may_know else None)
    assert ("firing" in found) is may_know


@pytest.mark.parametrize(
    ("role", "query", "status", "says"),
    [
        (None, "ch=txns", 401, ""),
        ("producer", "ch=audit", 403, "This needs the permission audit.read."),
        ("viewer", "ch=txn:3:1042", 404, "There is no transaction 3:1042"),
        ("producer", "ch=txn:3:1042", 404, "There is no transaction 3:1042"),
    ],
)
def test_who_asks_in_vain_is_told_why(
    engine: Engine, role: str | None, query: str, status: int, says: str
) -> None:
    client = None if role is None else signed_in(role)
    answer = get_live(client, query, Accept="application/json")
    assert answer.status_code == status
    assert says in (json.loads(answer.content)["message"] if says else "")


def test_an_owner_listens_to_their_own_and_to_nobody_else_s(engine: Engine) -> None:
    """Neither the list's channel nor a transaction's tells of another's, however it is asked."""
    own = engine.coordinator.open(owner="alice", tc_id=3).txn_id
    other = engine.coordinator.open(owner="bob", tc_id=3).txn_id
    alice = signed_in("producer", name="alice")

    def asked(channel: str) -> HttpResponse:
        return get_live(alice, f"ch={channel}", Accept="application/json")

    assert json.loads(asked("txns").content)["change"]["figures"] == {"open": 1}
    assert json.loads(asked(f"txn:{own}").content)["change"] == {"status": "OPEN"}
    another, none = asked(f"txn:{other}"), asked("txn:3:1042")
    assert another.status_code == none.status_code == 404
    assert another.content.decode() == none.content.decode().replace("3:1042", str(other))
    owner = Principal("alice", frozenset({Role.PRODUCER}))
    everybody = Principal("vera", frozenset({Role.VIEWER}))
    for text in ("txns", f"txn:{other}"):
        theirs, all_of_them = channel_named(text, owner), channel_named(text, everybody)
        assert theirs.name != all_of_them.name  # The hub shares what has one name.
        assert not all_of_them.may_be_heard_by(owner)
        assert not theirs.may_be_heard_by(Principal("bob", frozenset({Role.PRODUCER})))


def test_who_is_left_with_their_own_transactions_stops_hearing_of_all(session: str) -> None:
    """A viewer who becomes a producer listens on as one who may read less."""
    everybody = Principal("a-viewer", frozenset({Role.VIEWER}))
    channel = channel_named("txns", everybody)

    async def run() -> list[str]:
        hub = Hub(interval=0.01)
        stream = frames(channel, session, get_hub=lambda: hub, recheck_seconds=0)
        async with asyncio.timeout(60), aclosing(stream):  # type: ignore[type-var]
            await anext(stream)
            await asyncio.to_thread(demote)
            return [text async for text in stream]

    assert reason_of(async_to_sync(run)()[-1]) == "not permitted"


def demote() -> None:
    """Take the viewer's right to the console away."""
    user = User.objects.get(username="a-viewer")
    user.groups.set([Group.objects.get_or_create(name="producer")[0]])
    connections.close_all()

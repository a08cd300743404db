from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests.client.faults import TOPIC, FaultyLog, client
from txnconsole.client import (
    AsyncClient,
    AsyncTransportOptions,
    Client,
    InvalidTxnStatus,
    PartitionUnavailable,
    TopicNotFound,
    TransportOptions,
    Unreachable,
)
from txnconsole.client.wire import Call


def test_retry_after_is_kept_to() -> None:
    network = FaultyLog([503, 503])
    server, slept = client(network)
    server.transaction()
    assert slept == [1.0, 1.0]
    assert network.requests == ["POST /transactions"] * 3


def test_the_deadline_ends_the_retries() -> None:
    server, slept = client(FaultyLog([503] * 100), deadline=3.5)
    with pytest.raises(PartitionUnavailable):
        server.transactions.commit("0:7")
    assert slept == [1.0, 1.0, 1.0]


def test_a_refusal_is_not_repeated() -> None:
    network = FaultyLog([409])
    server, slept = client(network)
    with pytest.raises(InvalidTxnStatus):
        server.transactions.commit("0:7")
    assert slept == []
    assert len(network.requests) == 1


def test_a_lost_answer_to_a_commit_is_asked_for_again() -> None:
    network = FaultyLog(["lost answer", "refused"])
    server, _ = client(network)
    assert server.transactions.commit("0:7").status == "COMMITTED"
    assert len(network.requests) == 3


def test_an_answer_that_cannot_be_unpacked_is_asked_for_again() -> None:
    class Garbled(FaultyLog):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = super().handle_request(request)
            if len(self.requests) == 1:
                raise httpx.DecodingError("incorrect header check", request=request)
            return answer

    network = Garbled()
    server, _ = client(network)
    assert server.transactions.commit("0:7").status == "COMMITTED"
    assert len(network.requests) == 2


@pytest.mark.parametrize("path", ["", "/", "/api/v1", "/api/v1/"])
def test_the_address_may_be_given_with_the_base_path_of_the_contract(path: str) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(200, json={"topic": TOPIC, "partitions": 1})

    options = TransportOptions(http=httpx.MockTransport(answer))
    with Client(f"http://127.0.0.1:1{path}", "token", options) as server:
        server.topic(TOPIC)
    assert asked == [f"http://127.0.0.1:1/api/v1/topics/{TOPIC}"]


def test_a_server_that_stays_away_is_unreachable() -> None:
    server, _ = client(FaultyLog(["refused"] * 1000), deadline=0)
    with pytest.raises(Unreachable) as caught:
        server.transaction()
    told = "POST /transactions got no answer from http://127.0.0.1:1: ConnectError"
    assert str(caught.value).startswith(told)
    assert not caught.value.maybe_sent


def test_the_wait_between_attempts_may_give_up() -> None:
    class Stopped(Exception):
        pass

    def stop(seconds: float) -> None:
        raise Stopped

    options = TransportOptions(sleep=stop, http=FaultyLog([503]))
    with pytest.raises(Stopped):
        Client("http://127.0.0.1:1", "token", options).transaction()


def test_a_call_whose_client_is_closed_after_it_may_have_been_sent_says_so() -> None:
    network = FaultyLog(["lost answer"])
    options = TransportOptions(sleep=lambda _: server.close(), http=network)
    server = Client("http://127.0.0.1:1", "token", options)
    with pytest.raises(Unreachable) as caught:
        server.transactions.commit("0:7")
    assert caught.value.maybe_sent
    assert network.requests == ["POST /transactions/0:7/commit"]


def test_the_token_goes_to_the_api_only() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"topic": TOPIC, "partitions": 1})

    options = TransportOptions(http=httpx.MockTransport(answer))
    Client("http://127.0.0.1:1/", "secret", options).topic(TOPIC)
    assert str(seen[0].url) == f"http://127.0.0.1:1/api/v1/topics/{TOPIC}"
    assert seen[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("127.0.0.1:8000", "txc_x"),
        ("nonsense", "txc_x"),
        ("ftp://example.com", "txc_x"),
        ("http://", "txc_x"),
        ("http://example.com:port", "txc_x"),
        ("http://somebody:secret@example.com", "txc_x"),
        ("http://example.com/?page=1", "txc_x"),
        ("http://example.com/#top", "txc_x"),
        ("http://example.com", ""),
        ("http://example.com", "two\nlines"),
        ("http://example.com", "t\u00f6ken"),
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_or_a_token_that_can_be_none_is_refused_at_once(
    kind: type[Client] | type[AsyncClient], url: str, token: str
) -> None:
    with pytest.raises(ValueError, match=r"URL|token") as caught:
        kind(url, token)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", [None, b"http://example.com"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_of_another_type_is_refused_by_name(
    kind: type[Client] | type[AsyncClient], url: Any
) -> None:
    with pytest.raises(TypeError, match="url is to be a str"):
        kind(url, "txc_x")


@pytest.mark.parametrize("token", [None, b"txc_x"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_token_of_another_type_is_refused_by_name(
    kind: type[Client] | type[AsyncClient], token: Any
) -> None:
    """None is what an environment without the variable gives."""
    with pytest.raises(TypeError, match="token is to be a str"):
        kind("http://example.com", token)


def test_each_request_has_the_token_that_is_given_for_it() -> None:
    """One that is renewed while the program runs is read again; one that cannot be is told."""
    tokens: list[Any] = ["old", "old", "new", "new", "", None]
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200, json={"topic": TOPIC, "partitions": 1})

    options = TransportOptions(http=httpx.MockTransport(answer))
    blocking = Client("http://127.0.0.1:1", lambda: tokens.pop(0), options)

    async def twice() -> None:
        asynchronous = AsyncTransportOptions(http=httpx.MockTransport(answer))
        async with AsyncClient("http://127.0.0.1:1", lambda: tokens.pop(0), asynchronous) as client:
            await client.topic(TOPIC)
            await client.topic(TOPIC)

    blocking.topic(TOPIC)
    asyncio.run(twice())
    blocking.topic(TOPIC)
    assert seen == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]
    with pytest.raises(ValueError, match="token"):
        blocking.topic(TOPIC)
    with pytest.raises(TypeError, match="token"):
        blocking.topic(TOPIC)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "[::1]"])
def test_no_proxy_of_the_environment_is_asked_for_this_machine(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "ftp://127.0.0.1")  # Whoever looks at it refuses it.
    Client(f"http://{host}:1", "txc_x").close()
    with pytest.raises(ValueError, match="proxy"):
        Client("http://server.example", "txc_x")


def test_importing_the_client_imports_no_server() -> None:
    check = (
        "import sys, txnconsole.client;"
        "print([name for name in ('django', 'celery', 'psycopg', 'engine') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("answers", "gone"),
    [
        (["lost", 404], True),
        ([503, 404], True),
        (["refused", 404], False),
        ([404], False),
    ],
)
def test_what_an_attempt_before_may_have_deleted_is_gone_and_no_error(
    answers: list[str | int], *, gone: bool
) -> None:
    left = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        now = next(left)
        if now == "lost":
            raise httpx.ReadError("reset", request=request)
        if now == "refused":
            raise httpx.ConnectError("refused", request=request)
        code = {404: "TopicNotFound", 503: "PartitionUnavailable"}[int(now)]
        headers = {"Content-Type": "application/problem+json"}
        return httpx.Response(int(now), json={"code": code}, headers=headers)

    server, _ = client(httpx.MockTransport(answer))
    call = Call(method="DELETE", path=f"/topics/{TOPIC}", answer=dict)
    if gone:
        assert server.perform(call) == {}
    else:
        with pytest.raises(TopicNotFound):
            server.perform(call)

"""The API over a real connection: web server, worker, queue, databases."""

from __future__ import annotations

import concurrent.futures
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest
from django.conf import settings

from tests.server import Served, login_form
from tests.support.eventually import eventually
from txnconsole.api import limits


@pytest.fixture(scope="module")
def program(server: Served) -> Iterator[httpx.Client]:
    with server.client("producer,consumer") as client:
        yield client


def test_a_whole_transaction_across_brokers(server: Served, program: httpx.Client) -> None:
    source, target = server.topic(partitions=2), server.topic(partitions=2)
    program.put(f"/topics/{source}/subscriptions/s").raise_for_status()
    messages = f"/topics/{source}/partitions/0/messages"
    program.post(messages, json={"messages": [{"payload": "in"}]}).raise_for_status()
    received = program.post(
        f"/topics/{source}/subscriptions/s/receive", json={"consumer": "c", "wait_ms": 30_000}
    ).json()["messages"]

    txn_id = program.post("/transactions", json={"client": "test"}).json()["txn_id"]
    for partition in (0, 1):
        answer = program.post(
            f"/topics/{target}/partitions/{partition}/messages",
            json={"txn_id": txn_id, "messages": [{"payload": f"out-{partition}"}]},
        )
        assert answer.status_code == 201
    ids = [message["message_id"] for message in received]
    program.post(
        f"/topics/{source}/subscriptions/s/ack",
        json={"consumer": "c", "txn_id": txn_id, "message_ids": ids},
    ).raise_for_status()
    committed = program.post(f"/transactions/{txn_id}/commit", json={"wait_ms": 30_000}).json()
    assert committed["status"] == "COMMITTED"
    assert {each["state"] for each in committed["partitions"]} == {"committed"}
    for partition in (0, 1):
        fetched = program.get(f"/topics/{target}/partitions/{partition}/messages").json()
        assert [message["payload"] for message in fetched["messages"]] == [f"out-{partition}"]
    subscription = program.get(f"/topics/{source}/subscriptions/s").json()
    assert subscription["partitions"][0]["mark_delete_offset"] == 0


def test_the_same_commit_from_many_sides_is_one_commit(
    server: Served, program: httpx.Client
) -> None:
    topic = server.topic()
    txn_id = program.post("/transactions", json={}).json()["txn_id"]
    path = f"/topics/{topic}/partitions/0/messages"
    program.post(path, json={"txn_id": txn_id, "messages": [{"payload": "x"}]})
    barrier = threading.Barrier(8)

    def commit(_: int) -> int:
        barrier.wait()
        return program.post(f"/transactions/{txn_id}/commit", json={"wait_ms": 30_000}).status_code

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(commit, range(8))) == {200}
    log = program.get(f"/transactions/{txn_id}/log").json()["items"]
    assert [entry["new_status"] for entry in log if entry["metadata_op"] == "UPDATE"] == [
        "COMMITTING",
        "COMMITTED",
    ]
    view = program.get(f"{path}?view=log").json()["messages"]
    assert [entry["kind"] for entry in view] == ["DATA", "TXN_COMMIT"]


def test_the_same_batch_from_many_sides_is_appended_once(
    server: Served, program: httpx.Client
) -> None:
    path = f"/topics/{server.topic()}/partitions/0/messages"
    body = {"producer_name": "p", "sequence_id": 1, "messages": [{"payload": "x"}] * 3}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: program.post(path, json=body), range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] * 15 + [201]
    assert {answer.json()["first_offset"] for answer in answers} == {0}
    assert program.get(path).json()["last_offset"] == 2


def test_a_waiting_receive_does_not_keep_others_waiting(
    server: Served, program: httpx.Client
) -> None:
    topic = server.topic()
    program.put(f"/topics/{topic}/subscriptions/s").raise_for_status()
    receive = f"/topics/{topic}/subscriptions/s/receive"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [
            pool.submit(program.post, receive, json={"consumer": f"c{n}", "wait_ms": 30_000})
            for n in range(8)
        ]
        body = {"messages": [{"payload": str(number)} for number in range(8)]}
        while not all(future.done() for future in waiting):  # One takes what is there for many.
            program.post(f"/topics/{topic}/partitions/0/messages", json=body).raise_for_status()
        got = [len(future.result().json()["messages"]) for future in waiting]
    assert min(got) >= 1


def test_more_calls_wait_than_threads_work(server: Served, program: httpx.Client) -> None:
    path = f"/topics/{server.topic()}/partitions/0/messages"
    calls = settings.WEB_THREADS + 6

    def seconds(_: int) -> float:
        started = time.monotonic()
        program.get(path, params={"wait_ms": 2000}, timeout=90).raise_for_status()
        return time.monotonic() - started

    with concurrent.futures.ThreadPoolExecutor(calls) as pool:
        assert min(pool.map(seconds, range(calls))) >= 2


def test_a_call_whose_caller_has_gone_waits_no_longer(
    server: Served, program: httpx.Client
) -> None:
    subscription = f"/topics/{server.topic()}/subscriptions/s"
    body = {"type": "EXCLUSIVE", "consumer_lease_ms": 1000}
    program.put(subscription, json=body).raise_for_status()
    # A call that waits holds the lease for as long as it does.
    waiting = {"consumer": "gone", "wait_ms": 30_000}
    with server.client("producer,consumer") as gone, pytest.raises(httpx.ReadTimeout):
        gone.post(f"{subscription}/receive", json=waiting, timeout=2)
    assert eventually(
        lambda: program.post(f"{subscription}/receive", json={"consumer": "next"}).is_success,
    )


def test_a_full_batch_fits_in_both_forms(server: Served, program: httpx.Client) -> None:
    path = f"/topics/{server.topic()}/partitions/0/messages"
    payload = bytes(range(256)) * (limits.MEBIBYTE * 4 // 256)
    packed = msgspec.msgpack.encode({"messages": [{"payload": payload}] * 3})
    answer = program.post(path, content=packed, headers={"Content-Type": "application/msgpack"})
    assert answer.status_code == 201
    fetched = program.get(f"{path}?max_messages=1", headers={"Accept": "application/msgpack"})
    assert msgspec.msgpack.decode(fetched.content)["messages"][0]["payload"] == payload


def test_a_body_above_the_limit_is_413_with_and_without_a_declared_length(
    server: Served, program: httpx.Client
) -> None:
    path = f"/topics/{server.topic()}/partitions/0/messages"
    block = b" " * limits.MEBIBYTE

    def endless() -> Iterator[bytes]:
        for _ in range(limits.PRODUCE_BODY_BYTES // limits.MEBIBYTE + 2):
            yield block

    chunked = program.post(path, content=endless(), headers={"Content-Type": "application/json"})
    assert (chunked.status_code, chunked.json()["code"]) == (413, "PayloadTooLarge")
    head = (
        f"POST /api/v1{path} HTTP/1.1\r\nHost: {urlsplit(server.url).netloc}\r\n"
        f"Authorization: {program.headers['Authorization']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
    )
    with socket.create_connection((urlsplit(server.url).hostname, urlsplit(server.url).port)) as s:
        s.settimeout(60)
        s.sendall(head.encode())
        answer = s.recv(65_536)
    assert b" 413 " in answer.split(b"\r\n", 1)[0]
    assert b"PayloadTooLarge" in answer


def test_the_live_channel_waits_for_no_body(server: Served) -> None:
    """The caller is looked at first, whatever is still to come."""
    head = (
        f"GET /live?ch=overview HTTP/1.1\r\nHost: {urlsplit(server.url).netloc}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    )
    with socket.create_connection((urlsplit(server.url).hostname, urlsplit(server.url).port)) as s:
        s.settimeout(60)
        s.sendall(head.encode())
        answer = s.recv(65_536)
    assert b" 401 " in answer.split(b"\r\n", 1)[0]


@pytest.mark.parametrize("method", ["GET", "get"])
def test_the_live_channel_streams_however_its_method_is_written(
    method: str, server: Served
) -> None:
    """On a thread it would be read to its end, which does not come: a few of them, from anybody
    who may sign in, and the process would answer nobody any more."""
    with httpx.Client(base_url=server.url, timeout=60) as browser:
        form = login_form(browser.get("/login").text, server.user, server.password)
        assert browser.post("/login", data=form).status_code == 302
        cookie = f"sessionid={browser.cookies['sessionid']}"
    address = urlsplit(server.url)
    head = (
        f"{method} /live?ch=overview HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: {cookie}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port)) as s:
        s.settimeout(60)
        s.sendall(head.encode())
        answer = b""
        while b"retry: 2000" not in answer:
            part = s.recv(65_536)
            assert part, answer
            answer += part


def test_the_live_channel_takes_nothing(server: Served) -> None:
    """As any page: no more of its body is read than the limit."""
    assert httpx.post(f"{server.url}/live?ch=overview", content=b"x").status_code == 403


def test_a_revoked_token_is_refused_within_seconds(server: Served) -> None:
    with server.client("viewer", user="short-lived") as client:
        assert client.get("/topics").status_code == 200
        server.manage("revoke_token", "--user", "short-lived")
        assert eventually(lambda: client.get("/topics").status_code == 401)


def test_no_secret_is_in_any_log(server: Served, program: httpx.Client) -> None:
    secret = program.headers["Authorization"].removeprefix("Bearer ")
    path = f"/topics/{server.topic()}/partitions/0/messages"
    program.post(path, json={"messages": [{"payload": "a-secret-payload"}]})
    program.get("/topics?limit=1")
    for log in (path for path in server.logs.rglob("*") if path.is_file()):  # Runs have their own.
        text = log.read_text(errors="replace")
        assert secret not in text, log.name
        assert "a-secret-payload" not in text, log.name
        assert server.password not in text, log.name


def test_no_statement_of_djangos_own_holds_a_request_for_ever(server: Served) -> None:
    ask = (
        "from django.db import connection; cursor = connection.cursor();"
        "cursor.execute('SHOW statement_timeout'); print(cursor.fetchone()[0])"
    )
    assert server.manage("shell", "-v", "0", "-c", ask).split()[-1] == "1min"

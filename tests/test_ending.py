"""A web process that is told to end while it is at requests and streams, as at a new version."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.server import Served, login_form
from tests.support.eventually import eventually
from tests.support.ports import free_port
from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.programs import serving

pytestmark = pytest.mark.programs


class Another:
    """A web process beside the product's, over the same servers."""

    def __init__(self, server: Served, directory: Path) -> None:
        port = free_port()
        environment = {**server.environment, "PORT": str(port)}
        with DataDirectory.held(directory) as data:
            self.log = data.log("web")
            [self.child] = (each for each in serving(data, environment) if each.name == "web")
        self.url = f"http://127.0.0.1:{port}"
        self.child.start()

    def end(self) -> None:
        """Have it end as docker and systemd do."""
        self.child.stop()


@pytest.fixture
def another(server: Served, tmp_path: Path) -> Iterator[Another]:
    web = Another(server, tmp_path)

    def answers() -> bool:
        try:
            return httpx.get(f"{web.url}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    try:
        assert eventually(answers, seconds=120)
        yield web
    finally:
        web.end()


def test_calls_that_wait_are_answered_and_streams_end_and_nothing_is_killed(
    server: Served, another: Another
) -> None:
    """They were cut after three seconds without an answer, with all else that was under way."""
    quiet, away = f"/topics/{server.topic()}", f"/topics/{server.topic()}"
    reason, wait = {"reason": "test"}, {"wait_ms": 30_000}
    headers = {"Authorization": f"Bearer {server.token('admin')}"}
    api = httpx.Client(base_url=f"{another.url}/api/v1", headers=headers, timeout=60)
    api.put(f"{quiet}/subscriptions/s", json={"type": "SHARED"}).raise_for_status()
    txn = (
        api.post("/transactions", json={"timeout_ms": 600_000}).raise_for_status().json()["txn_id"]
    )
    written = {"txn_id": txn, "messages": [{"payload": "x"}]}
    api.post(f"{away}/partitions/0/messages", json=written).raise_for_status()
    api.post(f"{away}/partitions/0/offline", json=reason).raise_for_status()
    heard = threading.Event()
    with ThreadPoolExecutor() as pool:
        try:
            calls = [
                pool.submit(api.get, f"{quiet}/partitions/0/messages", params=wait),
                pool.submit(
                    api.post, f"{quiet}/subscriptions/s/receive", json={"consumer": "c", **wait}
                ),
                pool.submit(api.post, f"/transactions/{txn}/commit", json=wait),
            ]
            stream = pool.submit(_listen, another.url, server, heard)
            assert heard.wait(30)
            assert not any(call.done() for call in calls)
        finally:
            another.end()
        answers = [call.result() for call in calls]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0].json()["messages"] == []
    assert answers[2].json()["status"] == "COMMITTING"
    assert stream.result()
    assert "refused to gracefully stop" not in another.log.read_text()
    with server.client("admin") as admin:
        admin.post(f"{away}/partitions/0/online", json=reason).raise_for_status()


def _listen(url: str, server: Served, heard: threading.Event) -> bool:
    """Hear a channel until its stream ends; whether that was a whole answer."""
    with httpx.Client(base_url=url, timeout=60) as browser:
        form = login_form(browser.get("/login").text, server.user, server.password)
        browser.post("/login", data=form, headers={"Origin": url})
        with browser.stream("GET", "/live", params={"ch": "overview"}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for line in answer.iter_lines():
                if line.startswith("event:"):
                    heard.set()
    return True

"""A running product for tests: web server, worker and beat on databases of their own.

Nothing of it is shared with the ``engine`` fixture, which empties its databases between tests
under the feet of any process that remembers what was in them. Tests on ``server`` keep apart by
choosing topics of their own (:meth:`Served.topic`). Between them it rests: the tasks of each second
and each five would take a quarter of both processors from the others' tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.ports import free_port
from txnconsole.local.address import HOST
from txnconsole.local.child import Child
from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.postgres import EmbeddedPostgres
from txnconsole.local.programs import serving
from txnconsole.local.servers import databases
from txnconsole.local.valkey import EmbeddedValkey

_DATABASES = ("served_coordinator", "served_broker_1", "served_broker_2")
_READY_SECONDS = 240.0
#: This test process's product, once a test has asked for it.
_PRODUCT = pytest.StashKey["Served"]()


@dataclass
class Served:
    """The product at ``url``.

    Attributes:
        url: without a path, e.g. ``http://127.0.0.1:34567``.
        user, password: of the administrator, for the console's login.
        environment: what its programs run with; ``manage.py`` reaches the same servers with it.
        logs: a directory with one file for each program.
        web: the web server.
        beat: sends the tasks whose time has come, unless it is resting.
    """

    url: str
    user: str
    password: str
    environment: Mapping[str, str]
    logs: Path
    web: Child
    beat: Child
    resting: bool = False
    _tokens: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def token(self, role: str, topics: str = "*", user: str | None = None) -> str:
        """A token with a role (or several: ``producer,consumer``).

        Without ``user`` it belongs to one of its own for each role.
        """
        key = (role, topics, user or f"test-{role.replace(',', '-')}")
        if key not in self._tokens:
            self._tokens[key] = self._issue(*key)
        return self._tokens[key]

    def _issue(self, role: str, topics: str, user: str) -> str:
        """The administrator's by ``create_token``, all others by that one over REST."""
        if (role, topics, user) == ("admin", "*", "test-admin"):
            return self.manage("create_token", "--role", role, "--user", user).strip()
        with self.client("admin") as admin:
            admin.put(f"/users/{user}", json={}).raise_for_status()
            wanted = {"user": user, "roles": role.split(","), "topics": [topics]}
            answer = admin.post("/tokens", json=wanted).raise_for_status()
            return str(answer.json()["secret"])

    def client(self, role: str, topics: str = "*", user: str | None = None) -> httpx.Client:
        """An HTTP client at ``/api/v1`` with a token."""
        return httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {self.token(role, topics, user)}"},
            timeout=60,
        )

    def topic(self, partitions: int = 1, *, prefix: str = "t") -> str:
        """A new topic that no other test knows; rules and roles tell some apart by its prefix."""
        name = f"public/default/{prefix}-{secrets.token_hex(6)}"
        with self.client("admin") as client:
            answer = client.put(f"/topics/{name}", json={"partitions": partitions})
            answer.raise_for_status()
        return name

    @contextlib.contextmanager
    def killed(self) -> Iterator[None]:
        """The web server and all that it started are killed, and start again after the block."""
        assert self.web.pid is not None
        os.killpg(self.web.pid, signal.SIGKILL)
        self.web.stop()
        try:
            yield
        finally:
            self.web.start()
            assert eventually(lambda: _answers(f"{self.url}/healthz"), seconds=_READY_SECONDS)

    def rest(self) -> None:
        """Send no task any more, until it goes on."""
        os.kill(self._beating, signal.SIGSTOP)
        self.resting = True

    def go_on(self) -> None:
        """Send what has come due meanwhile, once."""
        os.kill(self._beating, signal.SIGCONT)
        self.resting = False

    def await_ready(self) -> None:
        """Until every part is up; a worker's first heartbeat comes last."""
        if not eventually(lambda: _answers(f"{self.url}/readyz"), seconds=_READY_SECONDS):
            logs = [f"--- {log.name}\n{log.read_text()[-3000:]}" for log in self.logs.iterdir()]
            raise AssertionError("The product is not ready:\n" + "\n".join(logs))

    @property
    def _beating(self) -> int:
        assert self.beat.pid is not None
        return self.beat.pid

    def manage(self, *arguments: str) -> str:
        """Run ``manage.py`` beside the product and return what it prints."""
        command = [sys.executable, "manage.py", *arguments]
        result = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        return result.stdout


@pytest.fixture(scope="session")
def server(
    postgres: EmbeddedPostgres, server_directory: Path, pytestconfig: pytest.Config
) -> Iterator[Served]:
    """A real web server, a Celery worker and beat, shared by the tests of this process."""
    with served(postgres, server_directory) as product:
        _leave_behind(product)
        pytestconfig.stash[_PRODUCT] = product
        yield product
        del pytestconfig.stash[_PRODUCT]
        product.go_on()  # It could not be told to stop.


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks a whole product, of processes, for something."""
    for item in items:
        if _asks_for_it(item):
            item.add_marker(pytest.mark.served)


def _asks_for_it(item: pytest.Item) -> bool:
    """Whether a test, or what it is given, asks the running product for something."""
    return "server" in getattr(item, "fixturenames", ())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The product goes on for a test that asks it for something."""
    product = item.config.stash.get(_PRODUCT, None)
    if product is not None and product.resting and _asks_for_it(item):
        product.go_on()
        product.await_ready()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """It rests when the next test asks it for nothing."""
    product = item.config.stash.get(_PRODUCT, None)
    if product is not None and nextitem is not None and not _asks_for_it(nextitem):
        product.rest()


def _leave_behind(product: Served) -> None:
    """What other tests may have left: more topics, subscriptions and open transactions than a page
    lists. Which tests share a product differs from run to run, so none may rely on being first."""
    with product.client("admin") as admin, product.client("producer", user="before") as before:
        for n in range(60):
            address = f"/topics/public/default/{'az'[n % 2]}-before-{n:02}"
            admin.put(address, json={}).raise_for_status()
            admin.put(f"{address}/subscriptions/before", json={}).raise_for_status()
            before.post("/transactions", json={"timeout_ms": 3_600_000}).raise_for_status()


@contextlib.contextmanager
def served(postgres: EmbeddedPostgres, directory: Path) -> Iterator[Served]:
    """The product with its data under a directory, on databases of its own."""
    with (
        DataDirectory.held(directory / "served") as data,
        _valkey(data) as redis_url,
    ):
        owner, processes = databases(postgres, data, _DATABASES)
        environment = {
            **os.environ,
            **processes,
            "REDIS_URL": redis_url,
            "SECRET_KEY": secrets.token_urlsafe(48),
            "TXNCONSOLE_DATA": str(data.path),
            "TXNCONSOLE_HTTPS": "0",
            "TXNCONSOLE_UNSAFE_DATABASES": "1",  # tests/conftest.py: without fsync
            "TXNCONSOLE_METRICS_BY_TOPIC": "1",
            "DJANGO_SETTINGS_MODULE": "txnconsole.settings",
            "PORT": str(free_port()),
        }
        login = _prepare(data, environment | owner)
        children = serving(data, environment)
        with _running(children):
            url = f"http://{HOST}:{environment['PORT']}"
            named = {child.name: child for child in children}
            product = Served(
                url=url,
                user=login["user"],
                password=login["password"],
                environment=environment,
                logs=data.path / "log",
                web=named["web"],
                beat=named["beat"],
            )
            product.await_ready()
            yield product


def login_form(page: str, user: str, password: str) -> dict[str, str]:
    """What the login page's form sends for a user."""
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert found is not None
    return {"csrfmiddlewaretoken": found[1], "username": user, "password": password}


@contextlib.contextmanager
def _valkey(data: DataDirectory) -> Iterator[str]:
    server = EmbeddedValkey(data.path, sockets=data.sockets, log=data.log("valkey"))
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


@contextlib.contextmanager
def _running(children: list[Child]) -> Iterator[None]:
    try:
        for child in children:
            child.start()
        yield
    finally:
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.stop()


def _prepare(data: DataDirectory, environment: Mapping[str, str]) -> dict[str, str]:
    """Migrate and make the login, exactly as a real start does."""
    file = data.path / "login.json"
    command = [sys.executable, "-m", "txnconsole.local.prepare", str(file)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    login: dict[str, str] = json.loads(file.read_text())
    return login


def _answers(address: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(address, timeout=5).status_code == 200
    return False

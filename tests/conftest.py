"""Servers for tests: a real PostgreSQL and a real Valkey per test process, never a stand-in."""

from __future__ import annotations

import gc
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test import TransactionTestCase
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from psycopg.conninfo import make_conninfo
from pytest_django import DjangoDbBlocker

from tests.support.chromium import CHROMIUM
from tests.support.databases import NAMES, Databases
from tests.support.kept_pool import KeptPool
from txnconsole.celery import app
from txnconsole.environment import django_database
from txnconsole.local.postgres import WRITER, EmbeddedPostgres, Login
from txnconsole.local.valkey import EmbeddedValkey
from txnconsole.queue import conflicts, wakeup

if TYPE_CHECKING:
    from engine import Engine

#: Ordinary tests may trade durability for speed; tests marked ``crash`` start servers of their own.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_NOWHERE = "/nonexistent"
#: pytest puts a test's name into the environment, and no program starts with a variable of 128 KiB.
_NAME_LENGTH = 500

#: How long a machine takes that others work on too says nothing about the code.
hypothesis_settings.register_profile(
    "shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("shared machine")

pytest_plugins = ["tests.server"]


def pytest_configure() -> None:
    """Point the settings away from any product that runs on this machine."""
    settings.DATABASE_URL = f"host={_NOWHERE}"
    settings.BROKER_DATABASE_URLS = [f"host={_NOWHERE}"]
    settings.REDIS_URL = f"unix://{_NOWHERE}/valkey.sock"
    settings.OFFLOAD_DIR = ""
    settings.SECURE_SSL_REDIRECT = False
    settings.UNSAFE_DATABASES = True  # see FAST
    settings.STATIC_ROOT = settings.BASE_DIR / "static"
    settings.WHITENOISE_AUTOREFRESH = True  # else each test's client looks at every static file
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    _use_database(settings.DATABASE_URL)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A long text is named by its length."""
    if isinstance(val, str | bytes) and len(val) > _NAME_LENGTH:
        return f"{argname} of {len(val)}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Outside CI, where nothing could install Chromium, the tests that need it are skipped."""
    if not CHROMIUM.exists() and os.environ.get("CI") != "true":
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason="Chromium is not installed"))


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not among what was imported: a twelfth of the time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Path]:
    """Where this test process keeps its servers; a short path, sockets go there."""
    with tempfile.TemporaryDirectory(prefix="txnconsole-test-") as directory:
        (Path(directory) / "run").mkdir()
        yield Path(directory)


@pytest.fixture(scope="session")
def postgres(server_directory: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL server without durability, shared by the tests of this process."""
    server = EmbeddedPostgres(
        server_directory,
        sockets=server_directory / "run",
        password=secrets.token_urlsafe(12),
        log=server_directory / "postgres.log",
        settings=FAST,
    )
    server.start(NAMES)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases(postgres: EmbeddedPostgres) -> Iterator[Databases]:
    """The coordinator's and two brokers' databases, migrated; Django's settings name them."""
    from txnconsole.enginedb import wiring

    found = Databases.on(postgres)
    settings.DATABASE_URL = found.coordinator_url
    settings.BROKER_DATABASE_URLS = found.broker_urls
    _use_database(found.coordinator_url)
    wiring.engine().migrate()
    found.keep_seeds()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.postgres.connections.ConnectionPool", KeptPool)
        # However slow the machine is, a run hears of what its brokers did.
        patch.setattr("engine.coordinator.finalization._PATIENCE_SECONDS", 60.0)
        patch.setattr("engine.inspect.standing.PATIENCE_SECONDS", 60.0)
        yield found
    wiring.close()


@pytest.fixture
def engine(databases: Databases) -> Iterator[Engine]:
    """The process's engine (``txnconsole.enginedb.wiring``) on databases without any row."""
    from txnconsole.enginedb import wiring

    wiring.close()
    databases.clean()
    yield wiring.engine()
    wiring.close()


@pytest.fixture
def owning_nothing(
    postgres: EmbeddedPostgres, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The process's login to the coordinators' database owns no table, as that of the product."""
    from txnconsole.enginedb import wiring

    login = Login("owns_nothing", WRITER.group)  # Another product on this server has WRITER's own.
    postgres.create_login(login, "secret")
    url = make_conninfo(databases.coordinator_url, user=login.name, password="secret")
    monkeypatch.setattr(settings, "DATABASE_URL", url)
    wiring.close()
    yield
    wiring.close()


@pytest.fixture
def whole_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a worker that goes on with a job comes to its end."""
    monkeypatch.setattr("txnconsole.jobs.driving.SLICE_SECONDS", 3600.0)


@pytest.fixture(scope="session")
def django_db_setup(databases: Databases, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """pytest-django's: Django's tables stand in the coordinators' test database."""
    with django_db_blocker.unblock():
        call_command("migrate", verbosity=0)
    databases.keep_djangos_seeds()
    with pytest.MonkeyPatch.context() as patch:
        # After a test that commits Django itself would truncate all tables, and fill in anew what
        # it knows of permissions: a hundred times as long.
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: databases.clean_djangos())
        yield


@pytest.fixture(autouse=True)
def _as_migrated(request: pytest.FixtureRequest) -> None:
    """Django's tables hold what the migrations left, whatever tests before have committed."""
    if request.node.get_closest_marker("django_db") or "db" in request.fixturenames:
        request.getfixturevalue("django_db_setup")
        request.getfixturevalue("databases").as_migrated()


@pytest.fixture(scope="session")
def valkey(server_directory: Path) -> Iterator[EmbeddedValkey]:
    """A Valkey server, shared by the tests of this process; Celery's queue is on it."""
    server = EmbeddedValkey(
        server_directory, sockets=server_directory / "run", log=server_directory / "valkey.log"
    )
    server.start()
    app.conf["broker_url"] = server.url.replace("unix://", "redis+socket://")
    with pytest.MonkeyPatch.context() as patch:
        # However slow the machine is, it answers.
        patch.setattr("txnconsole.queue.connection._TIMEOUT", 60.0)
        yield server
    server.stop()


@pytest.fixture
def valkey_url(valkey: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty Valkey, which Django's settings name during the test."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    monkeypatch.setattr(settings, "REDIS_URL", valkey.url)
    for module in (conflicts, wakeup):  # Another test's server may have been gone a moment ago.
        module._pause.end()
    return valkey.url


def _use_database(url: str) -> None:
    connections["default"].settings_dict.update(django_database("DATABASE_URL", url))

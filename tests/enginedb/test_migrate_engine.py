"""``manage.py migrate_engine``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from structlog.testing import capture_logs

from engine import Engine
from tests.engine.support import make_topic
from tests.support.databases import Databases
from txnconsole.enginedb import wiring


def test_it_makes_all_coordinators(engine: Engine) -> None:
    call_command("migrate_engine")
    assert len(engine.coordinator.stats()) == settings.COORDINATORS


def test_several_at_once_are_harmless(engine: Engine) -> None:
    transaction = engine.coordinator.open(owner="before")
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(call_command, "migrate_engine") for _ in range(4)]:
            done.result()
    assert engine.coordinator.get(transaction.txn_id).owner == "before"


def test_empty_databases_are_filled(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    with databases.empty("empty_coordinator", "empty_broker") as [coordinator, broker]:
        monkeypatch.setattr(settings, "DATABASE_URL", coordinator)
        monkeypatch.setattr(settings, "BROKER_DATABASE_URLS", [broker])
        wiring.close()
        try:
            with capture_logs() as logs:
                call_command("migrate_engine")
            assert [each for each in logs if each["log_level"] == "warning"] == []
            assert wiring.engine().coordinator.open(owner="first").txn_id.sequence == 0
        finally:
            wiring.close()


def test_a_database_that_may_lose_what_it_has_acknowledged_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    monkeypatch.setattr(settings, "UNSAFE_DATABASES", False)
    wiring.close()
    with pytest.raises(CommandError, match=r"broker-1 may lose .* fsync, .* off"):
        call_command("migrate_engine")
    wiring.close()


def test_brokers_in_another_order_than_before_are_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    before = settings.BROKER_DATABASE_URLS
    monkeypatch.setattr(settings, "BROKER_DATABASE_URLS", list(reversed(before)))
    wiring.close()
    with pytest.raises(CommandError, match=r"broker-1 is not .*; broker-2 is not at its address"):
        call_command("migrate_engine")
    wiring.close()


def migrated(*arguments: str) -> str:
    """What the command says when it succeeds."""
    said = StringIO()
    call_command("migrate_engine", *arguments, stdout=said)
    return said.getvalue()


def test_a_broker_whose_database_is_lost_begins_anew_when_that_is_said(
    engine: Engine, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    first = settings.BROKER_DATABASE_URLS[0]
    with databases.empty("not_a_broker") as [empty]:
        monkeypatch.setattr(settings, "BROKER_DATABASE_URLS", [first, empty])
        wiring.close()
        try:
            with pytest.raises(CommandError, match="migrate_engine --anew broker-2"):
                call_command("migrate_engine")
            with pytest.raises(CommandError, match="broker-3"):
                call_command("migrate_engine", "--anew", "broker-3")
            assert "broker-2: has become a broker\n" in migrated("--anew", "broker-2")
            assert migrated() == ""
            again = "broker-2: not begun anew, its database has been a broker's\n"
            assert migrated("--anew", "broker-2") == again
        finally:
            wiring.close()


@pytest.mark.django_db
def test_databases_in_which_a_later_version_has_only_django_s_tables_are_refused(
    engine: Engine,
) -> None:
    del engine
    with psycopg.connect(settings.DATABASE_URL) as connection:
        connection.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES"
            " ('alerts', '9999_later', now()), ('once_installed', '9999_gone', now())"
        )
    try:
        with pytest.raises(CommandError, match=r"later version .*\(alerts/9999_later\)"):
            call_command("migrate_engine")
    finally:
        with psycopg.connect(settings.DATABASE_URL) as connection:
            connection.execute("DELETE FROM django_migrations WHERE name LIKE '9999%'")
    call_command("migrate_engine")


def test_an_unreachable_database_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "DATABASE_URL", "host=/nonexistent dbname=none")
    wiring.close()
    with pytest.raises(CommandError) as raised:
        call_command("migrate_engine")
    wiring.close()
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("owning_nothing")
def test_a_login_that_owns_nothing_is_told_whose_address_is_wanted() -> None:
    with pytest.raises(CommandError, match="migrate with the addresses of their owner"):
        call_command("migrate_engine")

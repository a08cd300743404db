"""Settings from the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from txnconsole.environment import Environment, django_database, left_by_runner
from txnconsole.local.process import BASE_DIR
from txnconsole.logs import LEVELS

pytestmark = pytest.mark.programs


def test_what_is_given_goes_before_what_a_run_left_and_that_before_the_default() -> None:
    env = Environment({"A": "given", "EMPTY": ""}, {"A": "left", "B": "left", "EMPTY": "left"})
    names = ("A", "B", "C", "EMPTY")
    assert [env.text(name, "default") for name in names] == ["given", "left", "default", "left"]


@pytest.mark.parametrize("value", ["0", "5", "six", "-1", "1.5", "\N{FULLWIDTH DIGIT TWO}"])
def test_a_number_out_of_its_range_names_the_variable(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^COUNT must be a number from 1 to 4"):
        Environment({"COUNT": value}, {}).integer("COUNT", 2, low=1, high=4)


def test_a_switch_is_on_or_off_and_nothing_else() -> None:
    assert Environment({"X": "yes"}, {}).boolean("X", default=False) is True
    assert Environment({"X": "0"}, {}).boolean("X", default=True) is False
    with pytest.raises(ImproperlyConfigured, match=r"^X must be 1 or 0, not 'maybe'$"):
        Environment({"X": "maybe"}, {}).boolean("X", default=True)


def test_a_list_has_no_empty_items() -> None:
    assert Environment({"X": " a, ,b,"}, {}).items("X", "") == ["a", "b"]


def test_both_forms_of_a_connection_string_are_understood() -> None:
    url = django_database("DATABASE_URL", "postgresql://me:p%40ss@db:5433/tc?sslmode=require")
    pairs = django_database(
        "DATABASE_URL", "host=db port=5433 user=me password=p@ss dbname=tc sslmode=require"
    )
    assert url == pairs
    assert url["PASSWORD"] == "p@ss"
    assert url["OPTIONS"] == {"sslmode": "require"}


def test_a_broken_connection_string_is_named_and_not_repeated() -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        django_database("DATABASE_URL", "postgresql://me:secret@db:port:port/x?y")
    assert "DATABASE_URL" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("LOG_LEVEL", "verbose", "LOG_LEVEL must be one of DEBUG, INFO, "),
        ("REDIS_URL", "amqp://me:secret@queue", "REDIS_URL must be like redis://"),
        ("REDIS_URL", "redis://me:secret@queue:x", "REDIS_URL must be like redis://"),
        ("BROKER_DATABASE_URLS", "host=a, secret", "BROKER_DATABASE_URLS is not"),
        ("TXNCONSOLE_READER_DATABASE_URL", "secret", "TXNCONSOLE_READER_DATABASE_URL is not"),
        ("DATABASE_URL", "secret", "DATABASE_URL is not"),
        ("TXNCONSOLE_COORDINATORS", "many", "TXNCONSOLE_COORDINATORS must be a number"),
    ],
)
def test_a_command_tells_a_wrong_setting_in_one_line_without_a_secret(
    tmp_path: Path, name: str, value: str, says: str
) -> None:
    done = check_deploy(**{name: value}, TXNCONSOLE_DATA=str(tmp_path))
    [line] = done.stderr.splitlines()
    assert line.startswith(says)
    assert "secret" not in line
    assert (done.returncode, done.stdout) == (1, "")


def test_a_level_of_logs_may_be_written_in_small_letters() -> None:
    assert Environment({"X": "debug"}, {}).choice("X", "INFO", among=LEVELS) == "DEBUG"


def test_a_damaged_file_of_a_run_is_named(tmp_path: Path) -> None:
    assert left_by_runner(tmp_path) == {}
    (tmp_path / "environment.json").write_text(json.dumps({"SECRET_KEY": "x"}))
    assert left_by_runner(tmp_path) == {"SECRET_KEY": "x"}
    (tmp_path / "environment.json").write_text("{")
    with pytest.raises(ImproperlyConfigured, match=r"environment\.json cannot be read"):
        left_by_runner(tmp_path)


def check_deploy(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=BASE_DIR,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "command", [("verify_audit",), ("create_token", "--user=a", "--role=viewer")]
)
def test_a_command_whose_database_is_away_tells_where_it_looked_in_one_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=BASE_DIR,
        env=kept | {"TXNCONSOLE_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    [line] = done.stderr.splitlines()
    assert line.startswith("The coordinators' database cannot be reached: ")
    assert f"{tmp_path}/run/.s.PGSQL.5432" in line
    assert "TXNCONSOLE_DATA" in line
    assert (done.returncode, done.stdout) == (1, "")


def test_production_settings_pass_djangos_deployment_check(tmp_path: Path) -> None:
    key = "a-long-enough-and-random-secret-key-0123456789-abcdefghij"
    address = "host=db dbname=tc"
    done = check_deploy(DATABASE_URL=address, SECRET_KEY=key, TXNCONSOLE_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_production_without_a_secret_key_is_refused(tmp_path: Path) -> None:
    done = check_deploy(DATABASE_URL="host=db dbname=tc", TXNCONSOLE_DATA=str(tmp_path))
    assert done.returncode != 0
    assert "SECRET_KEY must be set when DATABASE_URL is" in done.stderr


def test_a_statement_of_a_web_process_has_a_third_of_a_requests_time(tmp_path: Path) -> None:
    ask = (
        "from txnconsole.asgi import application; from django.conf import settings;"
        "from django.db import connection;"
        "print(settings.STATEMENT_TIMEOUT_MS, connection.settings_dict['OPTIONS']['options'])"
    )
    kept = {"PATH": os.environ["PATH"], "TXNCONSOLE_DATA": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=BASE_DIR,
        env=kept | {"TXNCONSOLE_REQUEST_TIMEOUT_MS": "60000"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("20000 -c statement_timeout=20000 ")

"""docker-compose.yml against the code: where no docker is, every name in it is checked."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings as django
from django.core.management import get_commands

from txnconsole import connection_strings
from txnconsole.environment import django_database
from txnconsole.local.postgres import WRITER

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = ROOT / "docker-compose.yml"
Service = dict[str, Any]

#: As a person would set them.
GIVEN = {"POSTGRES_PASSWORD": "pass word", "PROCESSES_PASSWORD": "other", "SECRET_KEY": "key"}
_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::([-?])([^}]*))?\}")


def interpolated(text: str) -> str:
    """What compose makes of ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?reason}``."""

    def value(match: re.Match[str]) -> str:
        name, kind, default = match.groups()
        if name in GIVEN:
            return GIVEN[name].replace(" ", "%20")
        assert kind == "-", f"{name} has no default"
        return default

    return _VARIABLE.sub(value, text)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(interpolated(COMPOSE.read_text()))
    return found


@pytest.fixture(scope="module")
def services(document: dict[str, Any]) -> dict[str, Service]:
    found: dict[str, Service] = document["services"]
    return found


def product(services: dict[str, Service]) -> dict[str, Service]:
    return {name: service for name, service in services.items() if "build" in service}


def test_every_part_of_the_production_shape_is_there(services: dict[str, Service]) -> None:
    assert set(services) == {
        *("coordinator-db", "broker-1-db", "broker-2-db", "redis", "migrate"),
        *("web", "worker", "runs", "beat", "spark-master", "spark-worker", "spark-stream"),
    }


def test_whatever_keeps_running_has_a_health_check(services: dict[str, Service]) -> None:
    without = {name for name, service in services.items() if "healthcheck" not in service}
    assert without == {"migrate"}


def test_services_wait_only_for_services_that_can_become_so(services: dict[str, Service]) -> None:
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], (name, other)
            else:
                assert how["condition"] == "service_completed_successfully"
                assert services[other]["restart"] == "no"


def test_every_setting_is_one_that_the_code_reads(services: dict[str, Service]) -> None:
    sources = "".join(path.read_text() for path in (ROOT / "txnconsole").rglob("*.py"))
    for name, service in product(services).items():
        for variable in service.get("environment", {}):
            if not variable.startswith("OTEL_"):
                assert f'"{variable}"' in sources, (name, variable)


def test_every_setting_reaches_the_services(services: dict[str, Service]) -> None:
    read = set(re.findall(r'\benv\.\w+\(\s*"(\w+)"', (ROOT / "txnconsole/settings.py").read_text()))
    # The image's own; for work on the pages; for tests.
    read -= {"STATIC_ROOT", "DEBUG", "TXNCONSOLE_UNSAFE_DATABASES"}
    read |= set(re.findall(r"OTEL_[A-Z_]+", (ROOT / "docs" / "monitoring.md").read_text()))
    assert len(read) > 40
    for name in ("migrate", "web", "worker", "runs", "beat"):
        assert read - set(services[name]["environment"]) == set(), name
    for variable, value in services["web"]["environment"].items():
        # OpenTelemetry complains of an empty sampler.
        assert not variable.startswith("OTEL_") or value is None, variable


def databases(service: Service) -> list[dict[str, Any]]:
    """The coordinators' database and the brokers', as the service connects to them."""
    settings = service["environment"]
    brokers = connection_strings.split(settings["BROKER_DATABASE_URLS"])
    return [django_database("DATABASE_URL", url) for url in (settings["DATABASE_URL"], *brokers)]


@pytest.mark.parametrize("name", ["web", "worker", "runs", "beat", "migrate"])
def test_only_what_migrates_has_the_login_that_owns_the_tables(
    document: dict[str, Any], name: str
) -> None:
    services = document["services"]
    found = databases(services[name])
    assert [database["HOST"] for database in found] == [
        "coordinator-db",
        "broker-1-db",
        "broker-2-db",
    ]
    for database in found:
        server = services[database["HOST"]]
        assert database["NAME"] == server["environment"]["POSTGRES_DB"]
        if name == "migrate":
            owner = server["environment"]
            assert database["USER"] == owner["POSTGRES_USER"]
            assert database["PASSWORD"] == owner["POSTGRES_PASSWORD"].replace("%20", " ")
        else:
            assert (database["USER"], database["PASSWORD"]) == (WRITER.name, "other")
            [config] = server["configs"]
            assert config["target"].startswith("/docker-entrypoint-initdb.d/")
            made = " ".join(document["configs"][config["source"]]["content"].split())
            assert f"CREATE ROLE {WRITER.name} LOGIN PASSWORD 'other'" in made
            assert f"IN ROLE {WRITER.group};" in made


def test_addresses_name_services_that_exist(services: dict[str, Service]) -> None:
    settings = services["web"]["environment"]
    assert re.fullmatch(r"redis://redis:\d+/0", settings["REDIS_URL"])
    stream = services["spark-stream"]["environment"]
    assert stream["TXNCONSOLE_URL"] == settings["TXNCONSOLE_URL"] == "http://web:8000"
    assert "web" in settings["ALLOWED_HOSTS"].split(",")


def test_health_checks_are_answered_whatever_a_person_sets(services: dict[str, Service]) -> None:
    for name in ("web", "worker", "runs", "beat"):
        hosts = services[name]["environment"]["ALLOWED_HOSTS"]
        assert hosts.startswith("127.0.0.1,localhost,web,"), name
    asked = " ".join(services["web"]["healthcheck"]["test"])
    assert "//127.0.0.1:8000/" in asked
    for name in ("coordinator-db", "broker-1-db", "broker-2-db"):
        # Its image's first server, which makes the databases and goes again, has no address.
        assert "--host=127.0.0.1" in services[name]["healthcheck"]["test"], name


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def test_the_web_servers_health_is_not_asked_of_a_proxy(services: dict[str, Service]) -> None:
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _, program, *arguments = services["web"]["healthcheck"]["test"]
        asked = [each.replace(":8000/", f":{server.server_port}/") for each in arguments]
        proxied = dict(os.environ) | {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
        try:
            assert program == "python"
            subprocess.run([sys.executable, *asked], env=proxied, timeout=60, check=True)
        finally:
            server.shutdown()


def test_nothing_of_ours_has_rights_beyond_a_user_s(services: dict[str, Service]) -> None:
    for name, service in product(services).items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_every_command_exists(services: dict[str, Service]) -> None:
    programs = ROOT / ".venv" / "bin"
    for name, service in product(services).items():
        for command in (service["command"], service.get("healthcheck", {}).get("test", [])[1:]):
            line = " ".join(command)
            for module in re.findall(r"-m ([\w.]+)", line) + re.findall(r"--app=([\w.]+)", line):
                assert importlib.util.find_spec(module), (name, module)
            for management in re.findall(r"manage\.py (\w+)", line):
                assert management in get_commands(), (name, management)
            if command and command[0] in {"granian", "celery", "spark-class"}:
                assert (programs / command[0]).exists(), (name, command[0])


#: What the settings ask for, and what their defaults cannot know in this shape.
ASKED_FOR = {
    *("DATABASE_URL", "BROKER_DATABASE_URLS", "REDIS_URL", "SECRET_KEY", "ALLOWED_HOSTS"),
    *("TXNCONSOLE_URL", "TXNCONSOLE_SPARK_MASTER", "TXNCONSOLE_OFFLOAD_DIR"),
}


def test_every_process_of_the_product_is_told_where_the_others_are(
    services: dict[str, Service],
) -> None:
    for name in ("migrate", "web", "worker", "runs", "beat"):
        settings = services[name]["environment"]
        assert set(settings) >= ASKED_FOR, name
        assert all(settings[variable] for variable in ASKED_FOR), name


def test_the_jobs_that_are_started_find_the_server_the_cluster_and_its_files(
    services: dict[str, Service],
) -> None:
    settings = services["runs"]["environment"]
    assert settings["TXNCONSOLE_URL"] == "http://web:8000"
    master = services["spark-master"]["command"]
    given = dict(zip(master[2::2], master[3::2], strict=True))
    assert f"spark://{given['--host']}:{given['--port']}" == settings["TXNCONSOLE_SPARK_MASTER"]
    assert services["spark-worker"]["command"][-1] == settings["TXNCONSOLE_SPARK_MASTER"]
    # Executors run in a directory of their own, which the libraries' owner keeps to himself.
    assert services["spark-worker"]["command"][4:6] == ["--work-dir", "/tmp/spark"]  # noqa: S108
    assert "PYTHONPATH=/app" in (ROOT / "Dockerfile").read_text()
    for name in ("spark-master", "spark-worker"):  # Spark's parser knows no --name=value.
        assert not [each for each in services[name]["command"] if re.match("--.*=", each)], name
    # Everyone who is there without being asked for may be needed by a run.
    assert not services["spark-master"].get("profiles")
    assert not services["spark-worker"].get("profiles")
    queues = [services[name]["command"][3] for name in ("worker", "runs")]
    assert queues == [f"--queues={queue.name}" for queue in django.CELERY_TASK_QUEUES]
    for name in ("runs", "spark-worker", "spark-stream"):
        assert set(services[name]["volumes"]) == {"offloaded:/offload", "pipeline:/data"}, name
    assert "TXNCONSOLE_DATA=/data" in (ROOT / "Dockerfile").read_text()


def test_volumes_are_declared_and_used_once_but_for_the_shared_ones(
    services: dict[str, Service],
) -> None:
    shared = {"offloaded", "pipeline"}
    declared = set(yaml.safe_load(interpolated(COMPOSE.read_text()))["volumes"])
    used = [
        volume.partition(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])
    ]
    assert sorted(name for name in used if name not in shared) == sorted(declared - shared)
    assert used.count("offloaded") == len(product(services))


def test_nothing_listens_beyond_this_machine(services: dict[str, Service]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:8000:8000"]


def test_servers_keep_what_they_have_acknowledged(services: dict[str, Service]) -> None:
    for name in ("coordinator-db", "broker-1-db", "broker-2-db"):
        line = " ".join(services[name]["command"])
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert setting not in line
    assert services["web"]["image"] == services["worker"]["image"]


def test_no_secret_stands_in_the_file() -> None:
    text = COMPOSE.read_text()
    for name in ("POSTGRES_PASSWORD", "SECRET_KEY"):
        assert f"{name}: ${{{name}:?" in text


def test_the_image_holds_what_the_services_run() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for source in re.findall(r"^COPY (?!--)(\S+) ", dockerfile, flags=re.MULTILINE):
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source
    makefile = (ROOT / "Makefile").read_text()
    version = re.search(r"UV_VERSION := (\S+)", makefile)
    assert version
    assert f"uv=={version[1]}" in dockerfile


def test_the_image_has_each_tmpfs_as_whoever_runs_may_write_it(
    services: dict[str, Service],
) -> None:
    """A container that was started again had its tmpfs with the mode of the directory below it,
    root's own, and could not write there."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    mounted = [each for service in product(services).values() for each in service.get("tmpfs", [])]
    assert mounted
    for path, _, options in (each.partition(":") for each in mounted):
        assert options == "mode=1777"
        assert re.search(rf"install -d -m 1777 {path}$", dockerfile, flags=re.MULTILINE)


def test_the_image_has_its_modules_compiled() -> None:
    """Whoever runs may write nowhere, and compiled all of them at each start, as did each health
    check and each of Spark's workers: three times the processor time."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.search(r"uv pip sync .*--compile-bytecode", dockerfile)
    compiled = re.search(r"python -m compileall -q (.+?) &&", dockerfile)
    assert compiled
    sources = re.findall(r"^COPY (?!--)(\S+) \1$", dockerfile, flags=re.MULTILINE)
    packages = {source for source in sources if (ROOT / source / "__init__.py").exists()}
    assert set(compiled[1].split()) == packages == {"engine", "txnconsole"}


def test_compose_itself_accepts_it() -> None:
    docker = shutil.which("docker")
    command = [docker or "docker", "compose", "version"]
    if docker is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("docker compose is not installed")
    result = subprocess.run(
        [docker, "compose", "--file", str(COMPOSE), "config", "--quiet"],
        env=dict(os.environ) | GIVEN,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr

"""The whole product, started and stopped as a person does it."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.supervised_run import SupervisedRun
from txnconsole.local import supervisor
from txnconsole.local.address import reached_at
from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.postgres import EmbeddedPostgres
from txnconsole.local.servers import Servers
from txnconsole.local.valkey import EmbeddedValkey

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

TOPIC = "/api/v1/topics/public/default/kept"
RUNS = "/api/v1/pipeline/runs"


@pytest.fixture
def data() -> Iterator[Path]:
    """A data directory's place, closed to other users."""
    with tempfile.TemporaryDirectory(prefix="txnc-") as parent:
        yield Path(parent) / "data"


def test_a_run_opens_keeps_its_data_and_leaves_no_process(data: Path) -> None:
    with SupervisedRun(data) as first:
        first.wait_until_open()
        assert first.answers("/readyz", 200, seconds=120)
        assert first.call("PUT", TOPIC, b'{"partitions": 2}') == 201
        token = first.token()

        with SupervisedRun(data) as other:
            assert other.process.wait(120) == 1
            (line,) = other.output.splitlines()
            assert f"in use by another run (process {first.process.pid})" in line

        assert first.interrupt() == 0
        assert first.survivors() == []
        assert "Traceback" not in first.output

    with SupervisedRun(data) as second:
        second.wait_until_open()
        assert second.token() == token
        assert second.call("GET", TOPIC) == 200
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(120) == 0
        assert second.survivors() == []


def test_secrets_are_readable_by_their_owner_only(data: Path) -> None:
    with SupervisedRun(data) as product:
        product.wait_until_open()
        login = json.loads((data / "login.json").read_text())
        assert login["password"] in product.output
        for name in ("login.json", "environment.json", "django.secret", "postgres.secret"):
            assert (data / name).stat().st_mode & 0o077 == 0, name
        for log in (data / "log").iterdir():
            said = log.read_text()
            assert login["password"] not in said
            assert product.token() not in said


def test_nobody_else_may_write_what_a_run_has_made(data: Path) -> None:
    before = os.umask(0)  # As some that start services leave it.
    try:
        with SupervisedRun(data) as product:
            product.wait_until_open()
            made = [file for file in (data, *data.rglob("*")) if not file.is_symlink()]
            assert data / "static" in made
            assert [file for file in made if file.stat().st_mode & 0o022] == []
    finally:
        os.umask(before)


def test_ctrl_c_ends_a_pipeline_run_that_is_under_way(data: Path) -> None:
    with SupervisedRun(data) as product:
        product.wait_until_open()
        assert product.call("POST", RUNS, b'{"kind": "audit", "parameters": {}}') in (201, 202)
        assert product.runs("pipeline.jobs.audit", seconds=120)
        assert product.interrupt() == 0
        assert product.survivors() == []
        assert "Traceback" not in product.output

    with SupervisedRun(data) as next_run:
        next_run.wait_until_open()
        (run,) = next_run.read(RUNS)["items"]
        assert run["state"] == "failed"
        assert run["error"] == "It was stopped together with the product. Run it again."


@pytest.mark.crash
def test_a_killed_program_is_started_again_and_one_line_says_so(data: Path) -> None:
    with SupervisedRun(data) as product:
        product.wait_until_open()
        os.kill(product.pid_of("granian"), signal.SIGKILL)
        assert product.says(
            r"web ended \(SIGKILL\), starts again in 1 s; see .*web\.log", seconds=120
        )
        assert product.answers("/healthz", 200, seconds=120)

        assert product.call("PUT", TOPIC, b'{"partitions": 1}') == 201
        os.kill(product.pid_of("bin/postgres -D"), signal.SIGKILL)
        assert product.says(r"postgres ended \(SIGKILL\), starts again in 1 s", seconds=120)
        assert product.answers("/readyz", 200, seconds=120)
        assert product.call("GET", TOPIC) == 200
        assert product.interrupt() == 0
        assert product.survivors() == []


@pytest.mark.crash
def test_a_killed_supervisor_takes_everything_with_it(data: Path) -> None:
    with SupervisedRun(data) as killed:
        killed.wait_until_open()
        assert len(killed.survivors()) > 5
        killed.process.kill()
        killed.process.wait()
        assert killed.gone(seconds=120), killed.survivors()

    with SupervisedRun(data) as next_run:
        next_run.wait_until_open()
        assert next_run.answers("/readyz", 200, seconds=120)


def test_ctrl_c_while_it_starts_leaves_no_process(data: Path) -> None:
    with SupervisedRun(data) as product:
        postgres_is_there = data / "postgres" / "PG_VERSION"
        while not postgres_is_there.exists():
            assert product.process.poll() is None, product.output
        assert product.interrupt() == 0
        assert product.survivors() == []
        assert "Traceback" not in product.output


def test_a_signal_that_comes_while_an_object_is_finalized_is_quiet_and_not_lost() -> None:
    program = """
import os, signal
from txnconsole.local.supervisor import _Stop, _stopping_on_signals, _tend

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
        print("the signal came later")

with _stopping_on_signals():
    Finalized()
    try:
        _tend([])
    except _Stop:
        print("stopped")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_what_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    program = """
import sys, time
from pathlib import Path
from txnconsole.local import supervisor
from txnconsole.local.child import Child, Program

starts = Path(sys.argv[1])
command = ["sh", "-c", 'echo >> "$0"', str(starts)]
child = Child("web", Program(command, {}, starts.with_name("log")))
child.start()
while not starts.exists() or len(starts.read_text()) < 2:
    supervisor._tend([[child]], until=time.monotonic() + 0.1)
child.stop()
print("started again", file=sys.stderr)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "starts")]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.stderr.startswith("started again"), ran.stderr


def test_a_proxy_that_the_environment_names_is_not_asked_whether_the_web_server_is_ready() -> None:
    program = """
import http.server, threading
from txnconsole.local import supervisor

class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

supervisor._READY_SECONDS = 5
server = http.server.HTTPServer(("127.0.0.1", 0), Healthy)
threading.Thread(target=server.serve_forever, daemon=True).start()
supervisor._await_ready(server.server_port, [])
"""
    away = {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=dict(os.environ) | away,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["", "0", "no"])
def test_its_programs_are_told_of_https_as_it_has_understood_it(
    data: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an empty setting the web server's own default made HTTPS, where nobody speaks it."""
    monkeypatch.setenv("TXNCONSOLE_HTTPS", text)
    with DataDirectory.held(data) as held:
        told = supervisor._environment(held, Servers(), 8001, reached_at(8001))
    assert (told["TXNCONSOLE_HTTPS"], told["TXNCONSOLE_URL"]) == ("0", "http://127.0.0.1:8001")


def test_servers_that_the_environment_names_are_used(data: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="txnc-") as place:
        directory = Path(place)
        (directory / "run").mkdir()
        postgres = EmbeddedPostgres(
            directory,
            sockets=directory / "run",
            password="given",
            log=directory / "postgres.log",
        )
        valkey = EmbeddedValkey(directory, sockets=directory / "run", log=directory / "valkey.log")
        try:
            postgres.start(["tc", "first", "second", "third"])
            valkey.start()
            brokers = [postgres.url(name) for name in ("first", "second", "third")]
            given = {
                "DATABASE_URL": postgres.url("tc"),
                "BROKER_DATABASE_URLS": ",".join(brokers),
                "REDIS_URL": valkey.url,
            }
            with SupervisedRun(data, environment=given) as product:
                product.wait_until_open()
                assert product.answers("/readyz", 200, seconds=120)
                assert product.call("PUT", TOPIC, b'{"partitions": 3}') == 201
                assert not (data / "postgres").exists()
                assert not (data / "valkey").exists()
                assert product.interrupt() == 0
                assert product.survivors() == []
        finally:
            valkey.stop()
            postgres.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="every other test here runs as a plain user already")
def test_a_plain_user_can_run_it() -> None:
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory(prefix="txnc-") as parent:
        os.chown(parent, nobody.pw_uid, nobody.pw_gid)
        with SupervisedRun(Path(parent) / "data", prefix=as_plain_user(nobody)) as product:
            product.wait_until_open()
            assert product.answers("/readyz", 200, seconds=120)
            assert (product.data / "postgres").stat().st_uid == nobody.pw_uid
            assert product.interrupt() == 0
            assert product.survivors() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a plain user")
def test_a_data_directory_without_permission_is_one_line() -> None:
    with tempfile.TemporaryDirectory(prefix="txnc-") as parent:
        prefix = as_plain_user(pwd.getpwnam("nobody"))
        with SupervisedRun(Path(parent) / "data", prefix=prefix) as product:
            assert product.process.wait(120) == 1
            assert product.says(r"\ANo permission to write .*/data\. .*\n\Z", seconds=120)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_is_one_line(data: Path) -> None:
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(data)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not let root mount")
    try:
        with SupervisedRun(data) as product:
            assert product.process.wait(120) == 1
            assert product.says(r"\AThe disk that holds .* is full\. .*\n\Z", seconds=120)
    finally:
        subprocess.run(["umount", str(data)], check=True)


def as_plain_user(account: pwd.struct_passwd) -> list[str]:
    """Run as the account, able to read the interpreter wherever root keeps it; to write nothing."""
    setpriv = shutil.which("setpriv")
    assert setpriv
    return [
        setpriv,
        f"--reuid={account.pw_uid}",
        f"--regid={account.pw_gid}",
        "--clear-groups",
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
        "--",
    ]

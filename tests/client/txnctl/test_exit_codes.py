"""What a shell script can rely on."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from tests.client.txnctl.conftest import Txnctl
from txnconsole.client import UnexpectedAnswer
from txnconsole.client.txnctl.app import exit_code


@pytest.mark.parametrize(
    ("arguments", "role", "code", "says"),
    [
        (("transactions", "describe", "0:999999999"), "viewer", 3, "TransactionNotFound"),
        (("transactions", "describe", "nonsense"), "viewer", 2, "<coordinator>:<sequence>"),
        (("topics", "create", "public/default/x"), "viewer", 4, "PermissionDenied"),
        (("partitions", "describe", "public/default/x"), "viewer", 2, "topic:number"),
        (("topics", "describe", "flat"), "viewer", 2, "tenant/namespace/topic"),
        (("partitions", "describe", "a/b/c:00"), "viewer", 2, "topic:number"),
        (("transactions", "list", "--order", "odd"), "viewer", 2, "order"),
        (("transactions", "fly"), "viewer", 2, "No such command"),
        (("transactions", "list", "--min-age", "inf"), "viewer", 2, "--min-age"),
        (("transactions", "slow", "--min-age", "inf"), "viewer", 2, "--min-age"),
        (("topics", "create", "public/default/x", "--retention", "inf"), "admin", 2, "--retention"),
        (("alerts", "silence", "*", "--reason=x", "--hours=inf"), "operator", 2, "--hours takes"),
        (("alerts", "list", "--state", "nope"), "viewer", 2, "'all'"),
        (("subscriptions", "delete", "public/default/x", "..", "--yes"), "admin", 2, "'..' cannot"),
    ],
)
def test_refusals_have_their_codes_and_say_why(
    txnctl: Txnctl, arguments: tuple[str, ...], role: str, code: int, says: str
) -> None:
    ran = txnctl(*arguments, role=role)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err


def test_help_tells_the_exit_codes(txnctl: Txnctl) -> None:
    assert "5 a conflict" in " ".join(txnctl("-h").out.split())


@pytest.mark.parametrize(("status", "code"), [(404, 1), (403, 1), (200, 1), (502, 7), (503, 7)])
def test_an_answer_of_another_server_does_not_pass_for_ours(status: int, code: int) -> None:
    assert exit_code(UnexpectedAnswer("", status=status)) == code


@pytest.mark.parametrize(
    "proxy", ["socks5://127.0.0.1:9", "ftp://127.0.0.1", "http://127.0.0.1:port"]
)
def test_a_proxy_that_cannot_be_used_is_told_as_what_it_is(
    txnctl: Txnctl, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    ran = txnctl("--url", "http://server.example", "--patience", "0", "topics", "list")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("A proxy that the environment names")


def test_a_server_that_is_away_is_unavailable(txnctl: Txnctl) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        ran = txnctl("--url", url, "--patience", "0.1", "topics", "list")
    assert (ran.code, "Unreachable" in ran.err) == (7, True)


class Answering(BaseHTTPRequestHandler):
    """A server that gives one answer to all that is asked."""

    answer: ClassVar[dict[str, object]]

    def do_GET(self) -> None:
        body = json.dumps(self.answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class OfOneBroker(Answering):
    """It has found nothing to hang, and of its two brokers one is away."""

    answer: ClassVar = {
        "items": [],
        "next_cursor": None,
        "unavailable": {"broker-2": "It is away."},
    }


class HoldingBack(Answering):
    """One of two brokers answers, and has nothing that is held back."""

    answer: ClassVar = {
        "items": [],
        "complete": True,
        "unavailable": [{"broker": "broker-2", "detail": "It is away."}],
    }


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize(
    ("answering", "command", "said"),
    [
        (OfOneBroker, ("transactions", "find-hanging"), "Nothing was found to hang elsewhere."),
        (HoldingBack, ("partitions", "held-back"), "Nothing is held back elsewhere."),
    ],
    ids=["find-hanging", "held-back"],
)
def test_no_all_clear_is_given_for_what_could_not_be_looked_at(
    txnctl: Txnctl, answering: type[Answering], command: tuple[str, str], said: str, output: str
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), answering) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        ran = txnctl("--url", url, "-o", output, *command)
        server.shutdown()
    assert (ran.code, ran.out) == (7, "[]\n" if output == "json" else f"{said}\n")
    assert ran.err.count("broker-2 is missing: It is away.") == 1


class OfAnotherVersion(Answering):
    """Its answers have other members than ours."""

    answer: ClassVar = {"things": []}


@pytest.mark.parametrize(
    ("arguments", "lacks"),
    [
        (("topics", "list"), "items"),
        (("transactions", "outcome", "1:1"), "outcome"),
        (("coordinators", "list"), "items"),
    ],
)
def test_an_answer_that_lacks_what_a_command_shows_is_told_in_one_line(
    txnctl: Txnctl, arguments: tuple[str, ...], lacks: str
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), OfAnotherVersion) as server:
        Thread(target=server.serve_forever).start()
        try:
            ran = txnctl("--url", f"http://127.0.0.1:{server.server_port}", *arguments)
        finally:
            server.shutdown()
    assert (ran.code, ran.out) == (1, "")
    *_, line = ran.err.splitlines()  # Before it the server's own.
    assert line.startswith(f"UnexpectedAnswer: An answer has no '{lacks}'")


def test_a_bad_token_is_not_allowed(txnctl: Txnctl) -> None:
    ran = txnctl("--token", "txc_" + "A" * 43, "topics", "list")
    assert (ran.code, "NotAuthenticated" in ran.err) == (4, True)


def test_without_a_token_it_says_how_to_get_one_in_a_line_for_logs(txnctl: Txnctl) -> None:
    ran = txnctl("--token", "", "topics", "list")
    assert (ran.code, "'manage.py create_token --user NAME --role operator'" in ran.err) == (
        2,
        True,
    )


def test_help_needs_neither_token_nor_server(txnctl: Txnctl) -> None:
    ran = txnctl("--token", "", "transactions", "abort", "--help")
    assert (ran.code, "--reason" in ran.out) == (0, True)


@pytest.mark.programs
def test_output_that_has_no_room_is_a_failure_and_not_the_callers_mistake() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "txnconsole.client.txnctl", "--help"]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, "No space left" in ran.stderr) == (1, True)


@pytest.mark.programs
def test_without_a_standard_input_the_answer_is_no() -> None:
    command = [sys.executable, "-m", "txnconsole.client.txnctl", "topics", "delete", "a/b/c"]
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    ran = subprocess.run(closed, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.splitlines()[1:]) == (1, ["Nothing was done."])


@pytest.mark.programs
def test_a_reader_that_has_seen_enough_is_told_nothing() -> None:
    command = [sys.executable, "-m", "txnconsole.client.txnctl", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 1


def test_ctrl_c_while_it_starts_ends_it_without_a_word() -> None:
    starting = """
import os, runpy, signal, sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupted())
runpy.run_module("txnconsole.txnctl", run_name="__main__")
"""
    command = [sys.executable, "-c", starting]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_later_has_the_exit_code_of_an_interruption() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        url = ("--url", f"http://{host}:{port}", "--token", "txc_x")
        command = [sys.executable, "-m", "txnconsole.txnctl", *url, "topics", "list"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            silent.accept()[0].recv(1)  # It asks.
            running.send_signal(signal.SIGINT)
            assert running.communicate() == (b"", b"")
    assert running.returncode == 130

"""The port that the product opens."""

from __future__ import annotations

import socket

import pytest

from tests.support.ports import free_port
from txnconsole.local import address
from txnconsole.local.errors import CannotStart


@pytest.mark.parametrize("text", ["0", "65536", "-1", "http", "\N{FULLWIDTH DIGIT EIGHT}", "80 00"])
def test_what_is_no_port_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", text)
    with pytest.raises(CannotStart, match=r"^PORT must be a number from 1 to 65535, not "):
        address.chosen_port()


def test_without_a_choice_it_is_8000(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORT", raising=False)
    assert address.chosen_port() == 8000


def test_it_is_reached_where_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the environment names a server for ``txnctl``."""
    monkeypatch.setenv("TXNCONSOLE_URL", "https://elsewhere.example.org")
    monkeypatch.delenv("TXNCONSOLE_HTTPS", raising=False)
    assert address.reached_at(8001) == "http://127.0.0.1:8001"


@pytest.fixture
def behind_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXNCONSOLE_HTTPS", "1")
    monkeypatch.setenv("TXNCONSOLE_BEHIND_PROXY", "1")
    monkeypatch.setenv("TXNCONSOLE_URL", "https://console.example.org:8443/")


@pytest.mark.usefixtures("behind_tls")
def test_behind_a_proxy_that_ends_tls_it_is_reached_there() -> None:
    assert address.reached_at(8001) == "https://console.example.org:8443"


@pytest.mark.usefixtures("behind_tls")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TXNCONSOLE_BEHIND_PROXY", "0"),
        ("TXNCONSOLE_URL", ""),
        ("TXNCONSOLE_URL", "http://127.0.0.1:8001"),
    ],
)
def test_with_https_and_nobody_who_speaks_it_nothing_starts(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(CannotStart, match=r"^TXNCONSOLE_HTTPS=1 .* 127\.0\.0\.1:8001, "):
        address.reached_at(8001)


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXNCONSOLE_HTTPS", "perhaps")
    with pytest.raises(CannotStart, match=r"^TXNCONSOLE_HTTPS must be 1 or 0, not 'perhaps'\.$"):
        address.reached_at(8001)


def test_hosts_that_a_person_allows_take_none_away_that_the_run_asks_itself_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The web server refused the supervisor, which gave it up after a minute."""
    monkeypatch.setenv("ALLOWED_HOSTS", "console.example.org,other.example.org")
    hosts = address.allowed_hosts("https://front.example.org:8443").split(",")
    assert set(hosts) >= {"127.0.0.1", "localhost", "[::1]"}
    assert set(hosts) >= {"console.example.org", "other.example.org", "front.example.org"}


def test_a_taken_port_gets_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "_PATIENCE_SECONDS", 0.0)
    with socket.socket() as holder:
        holder.bind((address.HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with (
            pytest.raises(CannotStart, match=rf"^Port {port} is taken by another program\. .*run$"),
            address.held(port),
        ):
            pass


def test_a_port_that_was_just_closed_is_free() -> None:
    with address.held(free_port()):
        pass


def test_of_two_runs_that_start_at_once_only_one_has_the_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(address, "_PATIENCE_SECONDS", 0.0)
    port = free_port()
    with (
        address.held(port),
        pytest.raises(CannotStart, match=rf"^Port {port} is taken"),
        address.held(port),
    ):
        pass
    with address.held(port):
        pass


def test_the_web_server_opens_the_port_that_its_run_holds() -> None:
    port = free_port()
    with address.held(port), socket.socket() as web:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):  # As granian sets them.
            web.setsockopt(socket.SOL_SOCKET, option, 1)
        web.bind((address.HOST, port))
        web.listen()
        for _ in range(20):
            with socket.create_connection((address.HOST, port), timeout=60):
                web.accept()[0].close()

"""Where no TLS connection can be made, however often it is tried."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import SHUT_RDWR, SHUT_WR, create_server, socket
from threading import Thread

import pytest

from tests.client.faults import TOPIC
from tests.support.tls import self_signed
from txnconsole.client import (
    AsyncClient,
    AsyncTransportOptions,
    Client,
    TLSFailed,
    TransportOptions,
    UnexpectedAnswer,
)

ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@contextmanager
def serving(answer: Callable[[socket], None]) -> Iterator[str]:
    """An address at which each connection is given to ``answer``."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    answer(connection)
                except OSError:
                    continue  # The client has gone.

    with create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(SHUT_RDWR)
            thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that signs itself, with its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def over_tls(
    certificate: Path, *, of_clients: ssl.TLSVersion | None = None
) -> Callable[[socket], None]:
    """``of_clients``: demands a certificate of them, too, in this version of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if of_clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate)
        context.maximum_version = of_clients

    def answer(connection: socket) -> None:
        with context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        ) as secured:
            try:
                secured.do_handshake()
            except ssl.SSLError:  # Closed with something unread, it would be reset: no alert.
                with socket(fileno=secured.detach()) as refused:
                    refused.shutdown(SHUT_WR)
                    while refused.recv(65536):
                        pass
                return
            secured.recv(65536)
            secured.sendall(ANSWER)

    return answer


def plainly(connection: socket) -> None:
    connection.recv(65536)
    connection.sendall(ANSWER)


class TriedAgain(Exception):
    """Raised where a client would wait for its next attempt."""


def ask(url: str, *, asynchronous: bool) -> None:
    def wait(seconds: float) -> None:
        raise TriedAgain

    async def asynchronously() -> None:
        async with AsyncClient(url, "token", AsyncTransportOptions(sleep=wait)) as client:  # type: ignore[arg-type]
            await client.topic(TOPIC)

    if asynchronous:
        asyncio.run(asynchronously())
    else:
        with Client(url, "token", TransportOptions(sleep=wait)) as client:
            client.topic(TOPIC)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_https_to_a_server_of_http_is_told_at_once(asynchronous: bool) -> None:
    with serving(plainly) as url, pytest.raises(TLSFailed, match="http://") as caught:
        ask(url, asynchronous=asynchronous)
    assert url in str(caught.value)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_certificate_that_is_not_trusted_is_told_at_once_and_can_be_trusted(
    asynchronous: bool, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(over_tls(certificate)) as url:
        with pytest.raises(TLSFailed, match=r"self-signed certificate.*SSL_CERT_FILE") as caught:
            ask(url, asynchronous=asynchronous)
        assert url in str(caught.value)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
        with pytest.raises(UnexpectedAnswer, match="HTTP 404"):  # It was reached.
            ask(url, asynchronous=asynchronous)


@pytest.mark.parametrize(
    ("newest", "told"),
    [
        (ssl.TLSVersion.TLSv1_2, "no TLS that both sides know"),
        (ssl.TLSVersion.TLSv1_3, "it wants a certificate of its clients"),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_server_that_wants_a_certificate_of_the_client_is_told_at_once(
    asynchronous: bool,
    newest: ssl.TLSVersion,
    told: str,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    with (
        serving(over_tls(certificate, of_clients=newest)) as url,
        pytest.raises(TLSFailed, match=told) as caught,
    ):
        ask(url, asynchronous=asynchronous)
    assert url in str(caught.value)


@pytest.mark.parametrize("content", [None, "no certificate"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_file_that_gives_no_certificate_is_named(
    kind: type[Client] | type[AsyncClient],
    content: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = tmp_path / "authorities.pem"
    if content is not None:
        named.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    with pytest.raises(ValueError, match=r"SSL_CERT_FILE is '.*authorities\.pem'"):
        kind("https://example.com", "token")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_handshake_that_breaks_off_is_tried_again(asynchronous: bool) -> None:
    with serving(lambda connection: None) as url, pytest.raises(TriedAgain):
        ask(url, asynchronous=asynchronous)

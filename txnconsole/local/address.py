"""The address that the product opens: loopback, at a port of the user's choice."""

from __future__ import annotations

import os
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from txnconsole.environment import Environment
from txnconsole.local.errors import CannotStart

HOST = "127.0.0.1"
#: Opens addresses of this machine: a proxy that the environment names cannot reach its loopback.
loopback = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_PATIENCE_SECONDS = 3


def chosen_port() -> int:
    """``$PORT``, else 8000.

    Raises:
        CannotStart: it is no port number.
    """
    text = os.environ.get("PORT") or "8000"
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        raise CannotStart(f"PORT must be a number from 1 to 65535, not {text!r}.")
    return int(text)


def reached_at(port: int) -> str:
    """Where people and the run's own programs reach it, without a slash at the end: at the port
    itself or, with ``TXNCONSOLE_HTTPS``, where a proxy ends TLS, which ``$TXNCONSOLE_URL`` names.

    Raises:
        CannotStart: everybody would be sent to HTTPS, and nobody is there.
    """
    given = Environment(os.environ, {})
    try:
        if not given.boolean("TXNCONSOLE_HTTPS", default=False):
            return f"http://{HOST}:{port}"
        proxied = given.boolean("TXNCONSOLE_BEHIND_PROXY", default=False)
    except ImproperlyConfigured as error:
        raise CannotStart(f"{error}.") from None
    url = given.text("TXNCONSOLE_URL", "").rstrip("/")
    if not proxied or not url.startswith("https://"):
        raise CannotStart(
            "TXNCONSOLE_HTTPS=1 sends everybody to HTTPS: put a proxy that ends TLS in front of "
            f"{HOST}:{port}, and set TXNCONSOLE_BEHIND_PROXY=1 and TXNCONSOLE_URL to its https:// "
            "address."
        )
    return url


def allowed_hosts(url: str) -> str:
    """``$ALLOWED_HOSTS``, the name in the address that the run is reached at, and those by which
    this machine asks it."""
    named = os.environ.get("ALLOWED_HOSTS", "")
    return f"{HOST},localhost,[::1],{urlsplit(url).hostname},{named}"


@contextmanager
def held(port: int) -> Iterator[None]:
    """Hold the port, so that none but this run's web server opens it.

    The web server lets others open its port beside it (SO_REUSEPORT), and each is given a part of
    the requests: two runs that start at the same moment would not notice one another. A socket that
    is bound and never listens is given none.

    A run that was killed a moment ago may still have the port, and is given that moment.

    Raises:
        CannotStart: another program has it, or this user may not open it.
    """
    with _bound(port):
        yield


def _bound(port: int) -> socket.socket:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        holder = socket.socket()
        # For the time of the binding: connections of the last run may still be ending.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind((HOST, port))
        except PermissionError:
            holder.close()
            text = f"No permission to open port {port}: set PORT to one above 1023."
            raise CannotStart(text) from None
        except OSError:
            holder.close()
            if time.monotonic() > deadline:
                raise CannotStart(
                    f"Port {port} is taken by another program. Choose another one: "
                    f"PORT={port + 1 if port < 65_535 else 8000} make run"
                ) from None
        else:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            return holder
        time.sleep(0.2)

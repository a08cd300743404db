"""The address that the product opens: loopback, at a port of the user's choice."""

from __future__ import annotations

import os
import socket
import time

from txnconsole.local.errors import CannotStart

HOST = "127.0.0.1"
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


def assert_free(port: int) -> None:
    """Check that the web server will be able to open the port.

    A run that was killed a moment ago may still hold it, and is given that moment.

    Raises:
        CannotStart: another program holds it, or this user may not open it.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
                return
            except PermissionError:
                text = f"No permission to open port {port}: set PORT to one above 1023."
                raise CannotStart(text) from None
            except OSError:
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"Port {port} is taken by another program. Choose another one: "
                        f"PORT={port + 1 if port < 65_535 else 8000} make run"
                    ) from None
        time.sleep(0.2)

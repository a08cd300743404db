"""A queue at an address that begins with rediss://."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.tls import self_signed

_CONNECT = """
import django
django.setup()
from txnconsole.celery import app
app.connection_for_write().connect()
"""


@pytest.mark.programs
def test_workers_trust_no_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    """Celery trusts any unless it is told otherwise; of the product's own connection redis-py asks
    for a good one by itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            with suppress(OSError):  # The test has ended.
                while True:
                    caller = listening.accept()[0]
                    with suppress(OSError):  # It does not trust the certificate.
                        context.wrap_socket(caller, server_side=True).close()

        threading.Thread(target=greet, daemon=True).start()
        address = f"rediss://localhost:{listening.getsockname()[1]}/0"
        settings = {"DJANGO_SETTINGS_MODULE": "txnconsole.settings", "REDIS_URL": address}
        refused = subprocess.run(
            [sys.executable, "-c", _CONNECT],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "certificate verify failed" in refused.stderr.lower()

"""The embedded Valkey."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import redis

from txnconsole.local.errors import CannotStart
from txnconsole.local.valkey import EmbeddedValkey

pytestmark = pytest.mark.programs


def test_it_answers_on_a_socket_that_only_its_owner_can_open(valkey: EmbeddedValkey) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        assert client.ping() is True
    socket = Path(valkey.url.removeprefix("unix://"))
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700


def test_a_server_that_cannot_open_its_socket_is_told_in_one_line(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path, sockets=tmp_path / "missing", log=tmp_path / "valkey.log")
    with pytest.raises(CannotStart, match=r"^Valkey did not start: see .*valkey\.log$"):
        server.start()
    server.stop()

"""What 400 open pages cost the web process: streams of one partition's log."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import httpx

from benchmarks.http.product import Product
from benchmarks.live.demo import TOPIC
from benchmarks.report import Row, at_most
from txnconsole.local.address import HOST

_STREAMS, _SECONDS, _PERCENT = 400, 20, 20
_TICKS = os.sysconf("SC_CLK_TCK")


def rows(product: Product) -> list[Row]:
    """The process's share of a core while it has that many streams, less what it has without.

    Raises:
        RuntimeError: a stream was refused, or none of them said anything.
    """
    cookie = _signed_in(product)
    idle = _share(product)
    with ExitStack() as streams:
        opened = [streams.enter_context(_stream(product, cookie)) for _ in range(_STREAMS)]
        time.sleep(2)
        busy = _share(product)
        heard = sum(_drained(each) > 0 for each in opened)
    if heard < _STREAMS:
        raise RuntimeError(f"{heard} of {_STREAMS} streams said something.")
    return [
        at_most(f"web process under traffic with {_STREAMS} streams, % of a core", busy, 100),
        at_most(f"of it {_STREAMS} streams, % of a core", busy - idle, _PERCENT),
    ]


def _signed_in(product: Product) -> str:
    with httpx.Client(base_url=f"http://{HOST}:{product.port}") as client:
        client.get("/login").raise_for_status()
        given = {
            "username": product.user,
            "password": product.password,
            "csrfmiddlewaretoken": client.cookies["csrftoken"],
        }
        client.post("/login", data=given)
        return client.cookies["sessionid"]


def _stream(product: Product, cookie: str) -> socket.socket:
    connection = socket.create_connection((HOST, product.port), timeout=30)
    channel = quote(f"part:{TOPIC}:0", safe="")
    connection.sendall(
        f"GET /live?ch={channel} HTTP/1.1\r\nHost: {HOST}:{product.port}\r\n"
        f"Accept: text/event-stream\r\nCookie: sessionid={cookie}\r\n\r\n".encode()
    )
    status = connection.recv(15)
    if b" 200" not in status:
        raise RuntimeError(f"A stream was answered {status!r}.")
    return connection


def _drained(connection: socket.socket) -> int:
    """How many bytes have come."""
    connection.setblocking(False)
    count = 0
    try:
        while found := connection.recv(1 << 16):
            count += len(found)
    except BlockingIOError:
        pass  # All of it has been read.
    return count


def _share(product: Product) -> float:
    """Percent of a core that the web server and its workers take."""
    before, begun = _ticks(product.web), time.monotonic()
    time.sleep(_SECONDS)
    spent = (_ticks(product.web) - before) / _TICKS
    return 100 * spent / (time.monotonic() - begun)


def _ticks(group: int) -> int:
    """Of all processes of a group, by /proc/PID/stat: utime and stime."""
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has gone meanwhile.
        if int(fields[2]) == group:
            count += int(fields[11]) + int(fields[12])
    return count

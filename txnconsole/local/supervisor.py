"""Starts everything in order, keeps it running, stops all of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from txnconsole.environment import data_directory
from txnconsole.local import process, programs
from txnconsole.local.address import HOST, allowed_hosts, chosen_port, held, loopback, reached_at
from txnconsole.local.child import Child
from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.errors import CannotStart
from txnconsole.local.servers import Servers

_READY_SECONDS = 60
_STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
#: Set with the signal: Python drops what a handler raises while an object is being finalized, and
#: would write it down.
_stop_asked = threading.Event()


class _Stop(BaseException):
    """A signal asked this run to end."""


def supervise(*, demo: bool) -> None:
    """Run the product until a signal ends it.

    Raises:
        CannotStart: something outside stands in the way; nothing is left running.
    """
    os.umask(os.umask(0o022) | 0o022)  # Nobody else writes what this and its programs make.
    port = chosen_port()
    url = reached_at(port)
    with _stopping_on_signals(), DataDirectory.held(data_directory()) as data, held(port):
        process.adopt_orphans()
        layers: list[list[Child]] = []
        try:
            servers = Servers.start(data)
            layers.append(servers.children)
            environment = _environment(data, servers, port, url)
            login = _prepare(data, environment | servers.owner)
            _start(layers, programs.serving(data, environment))
            _await_ready(port, layers)
            if demo:
                _start(layers, programs.demonstrating(data, environment, login["tokens"]))
            _greet(data, url, login)
            _tend(layers)
        except _Stop:
            _tell("Stopping…")
        finally:
            _ignore_signals()
            _stop(layers)


def _start(layers: list[list[Child]], children: list[Child]) -> None:
    """Start programs that use those of the layers below."""
    layers.append(children)
    for child in children:
        child.start()


def _tend(layers: list[list[Child]], until: float | None = None) -> None:
    """Restart what ends, until ``until`` or for ever; sleeps until a child ends.

    Raises:
        _Stop: a signal asked for it. Signals wait in here to be taken between two steps, so that
            none comes just before the sleep and is noticed only after it.
    """
    children = [child for layer in layers for child in layer]
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    while until is None or time.monotonic() < until:
        if _stop_asked.is_set():
            raise _Stop
        for child in children:
            if line := child.tend():
                _tell(line)
        process.reap_orphans(_pids(layers))
        due = [child.seconds_until_due for child in children]
        waits = [seconds for seconds in due if seconds is not None]
        if until is not None:
            waits.append(max(0.0, until - time.monotonic()))
        taken = signal.sigtimedwait({signal.SIGCHLD, *_STOP_SIGNALS}, min(waits, default=60.0))
        if taken is not None and taken.si_signo != signal.SIGCHLD:
            raise _Stop
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)


def _tell(text: str) -> None:
    """Say it. Where it cannot be written, on a full disk or to a reader who is gone, the product
    goes on all the same."""
    with contextlib.suppress(OSError):
        print(text, flush=True)


def _stop(layers: list[list[Child]]) -> None:
    """Stop what uses others before what they use, and each layer together with what it leaves: the
    supervisor of a pipeline run outlives the worker that has started it."""
    for layer in reversed(layers):
        for child in layer:
            child.ask_to_stop()
        for child in layer:
            child.stop()
        process.end_orphans(_pids(layers))


def _pids(layers: list[list[Child]]) -> set[int]:
    return {child.pid for layer in layers for child in layer if child.pid is not None}


def _environment(data: DataDirectory, servers: Servers, port: int, url: str) -> dict[str, str]:
    settings = servers.environment | {
        "SECRET_KEY": os.environ.get("SECRET_KEY") or data.secret("django"),
        "TXNCONSOLE_OFFLOAD_DIR": os.environ.get("TXNCONSOLE_OFFLOAD_DIR")
        or str(data.path / "offload"),
    }
    data.publish(settings)
    return (
        dict(os.environ)
        | settings
        | {
            "TXNCONSOLE_DATA": str(data.path),
            "TXNCONSOLE_HTTPS": "1" if url.startswith("https:") else "0",
            "TXNCONSOLE_URL": url,
            "ALLOWED_HOSTS": allowed_hosts(url),
            "DJANGO_SETTINGS_MODULE": "txnconsole.settings",
            "PORT": str(port),
            "PYTHONUNBUFFERED": "1",
        }
    )


def _prepare(data: DataDirectory, environment: dict[str, str]) -> dict[str, Any]:
    file = data.path / "login.json"
    log = data.log("prepare")
    log.unlink(missing_ok=True)
    preparation = process.spawn(
        [sys.executable, "-m", "txnconsole.local.prepare", str(file)], log=log, env=environment
    )
    try:
        preparation.wait()
    finally:
        process.stop(preparation, signal.SIGTERM, deadline=time.monotonic())
    if preparation.returncode:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        said = lines[-1] if lines else f"exit code {preparation.returncode}"
        raise CannotStart(f"The databases cannot be prepared: {said} (see {log})")
    login: dict[str, Any] = json.loads(file.read_text())
    return login


def _await_ready(port: int, layers: list[list[Child]]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            loopback.open(f"http://{HOST}:{port}/healthz", timeout=2).close()
            return
        _tend(layers, until=time.monotonic() + 0.1)
    raise CannotStart(f"The web server is not ready after {_READY_SECONDS} s: see its log.")


def _greet(data: DataDirectory, url: str, login: dict[str, Any]) -> None:
    password = "(as you have set it)" if login["password_changed"] else login["password"]
    print(
        f"""
txnconsole is open at {url}
  login   {login["user"]}  {password}
  token   {login["tokens"][login["user"]]}
  try     curl -H 'Authorization: Bearer {login["tokens"][login["user"]]}' {url}/api/v1/coordinators
  data    {data.path} (logs in log/)
Ctrl-C stops everything.
""",
        flush=True,
    )


@contextlib.contextmanager
def _stopping_on_signals() -> Iterator[None]:
    """The stop signals raise ``_Stop`` wherever this run is; SIGCHLD waits to be asked for."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        _ignore_signals()
        _stop_asked.set()
        raise _Stop

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is not _Stop:
            sys.__unraisablehook__(what)

    sys.unraisablehook = dropped
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for sent in _STOP_SIGNALS:
        signal.signal(sent, stop)
    yield


def _ignore_signals() -> None:
    """Stopping has begun and takes a bounded time; asking again does not help."""
    for sent in _STOP_SIGNALS:
        signal.signal(sent, signal.SIG_IGN)

"""Watching one run: start its job, write down what it tells, end it when that is wished.

The job is a process group of its own. Its standard input is a pipe that nobody writes to: when this
process dies, whatever kills it, the pipe closes and the job ends itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, connections
from django.db.models.functions import Now

from txnconsole.access import tokens
from txnconsole.access.models import Token
from txnconsole.access.roles import Role
from txnconsole.environment import SERVER_ONLY, STORES_KEYS
from txnconsole.jobs.work import JobState
from txnconsole.runs import run_log
from txnconsole.runs.kinds import kind_named
from txnconsole.runs.launching import SILENCE
from txnconsole.runs.models import PipelineRun

_BEAT_SECONDS = 1.0
#: After SIGTERM; what still lives then is killed.
_GRACE_SECONDS = 15.0
#: For how long a run's token is valid, and after how much of that the supervisor renews it.
_TOKEN_LIFE, _TOKEN_RENEWAL = timedelta(minutes=5), timedelta(minutes=1)
_MOST = 2**31 - 1
#: Exit statuses of a job (txnconsole/pipeline/jobs/run.py).
_DONE, _FOUND = 0, 3
_OWNER = "pipeline"
_SCRATCH = "txnconsole-run-"

_log = structlog.get_logger(__name__)


@dataclass
class Told:
    """What the job has told so far; one thread writes it, another reads it."""

    stage: str = "starting"
    done: int = 0
    total: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] | None = None
    error: str = ""

    def take(self, line: bytes) -> None:
        """Note one event; what is none is left alone, and so is what the row could not hold."""
        try:
            facts = _storable(json.loads(line, parse_constant=_refuse))
        except (ValueError, RecursionError):
            return
        match facts:
            case {"stage": str(stage), "done": int(done), "total": int(total)}:
                if 0 <= done <= _MOST and 0 <= total <= _MOST:
                    self.stage, self.done, self.total = stage, done, total
            case {"figures": dict(figures)}:
                self.figures = self.figures | figures
            case {"result": dict(result)}:
                self.result = result
            case {"error": str(error)}:
                self.error = error
            case _:
                pass


class Supervisor:
    """Supervises the run of a number while it holds the lease."""

    def __init__(self, run_id: int, lease: int) -> None:
        self._row = PipelineRun.objects.filter(pk=run_id, lease=lease, state=JobState.RUNNING)
        self._run_id = run_id
        self._told = Told()
        self._cancelled = False
        self._stopped = False
        self._token = _Token.none()

    def run(self) -> None:
        """Run the job to its end; nothing happens when the run is not this supervisor's."""
        run = self._row.first()
        if run is None:
            return
        self._row.update(place=f"{socket.gethostname()}:{os.getpid()}", heartbeat_at=Now())
        with _token(run) as self._token:
            self._follow(run)

    def stop(self) -> None:
        """End the job soon, and tell that it was stopped together with the product."""
        self._stopped = True

    def _follow(self, run: PipelineRun) -> None:
        log = run_log.place(run.pk)
        log.parent.mkdir(parents=True, exist_ok=True)
        run_log.drop_forgotten()
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, ignore_cleanup_errors=True) as scratch:
            environment = _environment(run, self._token.secret, scratch)
            with log.open("wb") as output:
                process = _start(run, environment, output.fileno())
            listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
            listener.start()
            try:
                self._watch(process)
            finally:
                _end_group(process)
            listener.join(_GRACE_SECONDS)
            self._record(process.returncode)

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for line in process.stdout:
            self._told.take(line)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Until the job ends, is to be stopped or cancelled, or is not ours any more."""
        heard = time.monotonic()
        while not self._stopped:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_BEAT_SECONDS)
                return
            try:
                if not self._beat():
                    return
                heard = time.monotonic()
            except DatabaseError as error:
                _log.warning("heartbeat not written", error=type(error).__name__)
                connections.close_all()  # No request ends here to leave one that is broken.
                if time.monotonic() - heard > SILENCE.total_seconds():
                    return  # Whoever reads the row has given the run up by now.

    def _beat(self) -> bool:
        """Write down what is known; whether to go on."""
        if not self._row.update(heartbeat_at=Now(), **self._progress()):
            return False
        self._token.renew()
        self._cancelled = self._row.filter(cancel_requested_at__isnull=False).exists()
        return not self._cancelled

    def _progress(self) -> dict[str, Any]:
        told = self._told
        return {
            "stage": told.stage,
            "stage_done": told.done,
            "stage_total": told.total,
            "figures": told.figures,
        }

    def _record(self, exit_code: int) -> None:
        state, error = JobState.DONE, ""
        if exit_code not in (_DONE, _FOUND):
            state, error = JobState.FAILED, self._told.error or _how(exit_code)
            if self._stopped:
                error = "It was stopped together with the product. Run it again."
            if self._cancelled:  # Whatever it has said of its end, that was wished.
                state, error = JobState.CANCELLED, ""
        self._store(
            **self._progress(),
            state=state,
            ended_at=Now(),
            exit_code=exit_code,
            error=error,
            result=self._told.result,
            found=exit_code == _FOUND,
            log_tail=run_log.tail(self._run_id),
        )
        _log.info("run ended", state=str(state), exit_code=exit_code)

    def _store(self, **end: Any) -> None:
        """Write the end down, as soon as the database answers while the run is this supervisor's:
        what the job has done is not to be told as lost."""
        give_up = time.monotonic() + SILENCE.total_seconds()
        while True:
            try:
                self._row.update(**end)
                return
            except DatabaseError as error:
                _log.warning("end not written", error=type(error).__name__)
                connections.close_all()
                if time.monotonic() > give_up:
                    raise
            time.sleep(_BEAT_SECONDS)


@dataclass(frozen=True)
class _Token:
    """A run's token, if it needs one."""

    issued: Token | None
    secret: str

    @classmethod
    def none(cls) -> _Token:
        return cls(None, "")

    def renew(self) -> None:
        """Let it last on, once it is a while old."""
        if self.issued is not None:
            tokens.renew(self.issued, _TOKEN_LIFE, below=_TOKEN_LIFE - _TOKEN_RENEWAL)


@contextlib.contextmanager
def _token(run: PipelineRun) -> Iterator[_Token]:
    """A token for the topics that the run is about. It ends with the run, and minutes after the
    supervisor when that is killed: nobody renews it then."""
    topics = kind_named(run.kind).topics(run.parameters)
    if not topics:
        yield _Token.none()
        return
    user, _ = User.objects.get_or_create(username=_OWNER)
    roles = [Role.VIEWER, Role.PRODUCER, Role.CONSUMER]
    issued, secret = tokens.issue(user, roles, topics=topics, lifetime=_TOKEN_LIFE)
    try:
        yield _Token(issued, secret)
    finally:
        tokens.revoke(issued)


def _start(run: PipelineRun, environment: Mapping[str, str], log: int) -> subprocess.Popen[bytes]:
    kind = kind_named(run.kind)
    return subprocess.Popen(  # noqa: S603 - a module of this program; values are single arguments
        [sys.executable, "-m", kind.module, *kind.arguments(run.parameters)],
        cwd=settings.BASE_DIR,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )


def _environment(run: PipelineRun, token: str, scratch: str) -> dict[str, str]:
    """What the job is told; of the server's secrets no more than it needs. Its temporary files are
    in ``scratch``: Spark, when it is killed, leaves them."""
    kind = kind_named(run.kind)
    hidden = SERVER_ONLY | (frozenset() if kind.databases else STORES_KEYS)
    public = {key: value for key, value in os.environ.items() if key not in hidden}
    public |= {
        "TXNCONSOLE_RUN": str(run.pk),
        "TXNCONSOLE_URL": settings.PIPELINE_URL,
        "TXNCONSOLE_TOKEN": token,
        "TXNCONSOLE_DATA": str(settings.DATA_DIR),
        "TMPDIR": scratch,
    }
    if kind.databases:
        public["TXNCONSOLE_OFFLOAD_DIR"] = settings.OFFLOAD_DIR
        for name in ("DATABASE_URL", "BROKER_DATABASE_URLS"):
            urls = getattr(settings, name if name in kind.owns else f"READER_{name}")
            public[name] = urls if isinstance(urls, str) else ",".join(urls)
    return public


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ask the job and all it started to end, then see to it."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _storable(value: Any) -> Any:
    """A JSON value without what PostgreSQL's texts cannot hold."""
    match value:
        case str():
            return value.replace("\0", "").encode(errors="replace").decode()
        case list():
            return [_storable(each) for each in value]
        case dict():
            return {_storable(key): _storable(each) for key, each in value.items()}
        case _:
            return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _how(exit_code: int) -> str:
    if exit_code < 0:
        return f"The job was ended by {signal.Signals(-exit_code).name}."
    return f"The job ended with status {exit_code}; its log says why."

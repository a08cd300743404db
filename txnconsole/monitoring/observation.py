"""One look at everything, shared by all who ask within a few seconds."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import monotonic

import structlog
from django.conf import settings

from engine import Engine
from engine.inspect.standing import Standing
from engine.model.errors import EngineError
from engine.model.figures import Tally
from txnconsole.enginedb.wiring import engine
from txnconsole.queue import connection, heartbeat

_log = structlog.get_logger(__name__)

#: Seconds for which a look is good.
KEPT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Observation:
    """``figures`` is None when the coordinators' database does not answer; ``workers_seen`` and
    ``queued`` when the queue does not."""

    standing: Standing
    figures: Tally | None
    workers_seen: bool | None
    queued: int | None


class _Kept:
    lock = threading.Lock()
    of: Engine | None = None
    until = 0.0
    observation: Observation | None = None


def observe() -> Observation:
    """Look at everything, or answer the last look while it is good; one caller looks at a time."""
    with _Kept.lock:
        asked = engine()
        if _Kept.observation is None or _Kept.of is not asked or monotonic() >= _Kept.until:
            _Kept.observation = _look(asked)
            _Kept.of, _Kept.until = asked, monotonic() + KEPT_SECONDS
        return _Kept.observation


def _look(asked: Engine) -> Observation:
    standing = asked.inspect.standing(one_by_one=settings.METRICS_BY_TOPIC)
    figures: Tally | None = None
    if standing.coordinators is not None:
        asked.figures.write()  # What this process has counted is to be seen at once.
        try:
            figures = asked.figures.read()
        except EngineError as error:
            _log.warning("metrics incomplete", code=error.code)
    return Observation(
        standing=standing,
        figures=figures,
        workers_seen=heartbeat.workers_seen(),
        queued=connection.queued() if connection.ping() is None else None,
    )

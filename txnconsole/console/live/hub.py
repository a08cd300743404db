"""One hub per process: it reads each channel once a second and gives frames to the listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog
from django.db import connections

from engine.model.errors import CoordinatorUnavailable, EngineError
from engine.postgres import absences
from txnconsole.console.live.feed import Feed, Reading
from txnconsole.console.live.firing import firing_alerts
from txnconsole.console.live.frames import frame
from txnconsole.enginedb.away import DATABASE_AWAY
from txnconsole.statuses import status_of_code

_log = structlog.get_logger(__name__)

#: Seconds between two readings of a channel, and between two that fail.
INTERVAL = 1.0
INTERVAL_FAILING = 3.0
#: Seconds after which a reading that has not come back is told: a frozen server ends none
#: (docs/decisions/0034).
UNANSWERED = 5.0
#: How many frames may wait for a browser; beyond that it is told to read the page again.
QUEUE_FRAMES = 16
#: How many streams a process may have open (design/console.md §1.4).
MAX_STREAMS = 500


class TooManyStreams(Exception):
    """This process serves as many streams as it may."""


class Listener:
    """An open stream in a channel, with the frames that wait for it.

    Attributes:
        hears_alerts: it is told how many alerts fire, too.
    """

    def __init__(self, *, hears_alerts: bool = False) -> None:
        self.hears_alerts = hears_alerts
        self._frames: asyncio.Queue[str] = asyncio.Queue(QUEUE_FRAMES)

    def put(self, text: str, *, position: str) -> bool:
        """Queue a frame. A full queue is emptied, and holds only the advice to read the
        page again; False then."""
        try:
            self._frames.put_nowait(text)
        except asyncio.QueueFull:
            while not self._frames.empty():
                self._frames.get_nowait()
            self._frames.put_nowait(frame("resync", position=position))
            return False
        return True

    async def next(self, timeout: float) -> str | None:
        """The next frame; None when none came within ``timeout`` seconds."""
        try:
            return await asyncio.wait_for(self._frames.get(), timeout)
        except TimeoutError:
            return None


@dataclass(slots=True)
class _Channel:
    feed: Feed
    listeners: set[Listener] = field(default_factory=set)
    position: str | None = None
    fault: str | None = None
    firing: int | None = None
    task: asyncio.Task[None] | None = None

    def broadcast(self, text: str) -> None:
        for listener in self.listeners:
            if not listener.put(text, position=self.position or ""):
                self._tell_firing(listener)  # The page does not read that again.

    def greet(self, listener: Listener) -> None:
        """Tell a new listener where the channel stands, if it has been read, or why it is not known
        any more."""
        if self.fault is not None:
            listener.put(self.fault, position=self.position or "")
        elif self.position is not None:
            listener.put(_hello(self.position), position=self.position)
        self._tell_firing(listener)

    def fail(self, status: int, message: str) -> None:
        """Tell all why the channel cannot be read now, with the status of a page that says so."""
        self.fault = frame("fault", {"status": status, "message": message})
        self.broadcast(self.fault)

    def move_to(self, reading: Reading) -> None:
        """Tell all what has been read. After a fault that is where the channel stands: who has come
        since then knows nothing else."""
        greets = self.position is None or self.fault is not None
        self.position, self.fault = reading.position, None
        if greets:
            self.broadcast(_hello(reading.position))
        elif reading.change is None:
            self.broadcast(frame("tick"))
        else:
            self.broadcast(frame("delta", reading.change, position=reading.position))
        self.note_firing(reading.firing)

    def note_firing(self, firing: int | None) -> None:
        """Tell how many alerts fire when that is news."""
        if firing is None or firing == self.firing:
            return
        self.firing = firing
        for listener in self.listeners:
            self._tell_firing(listener)

    def _tell_firing(self, listener: Listener) -> None:
        if listener.hears_alerts and self.firing is not None:
            text, position = frame("alerts", {"firing": self.firing}), self.position or ""
            if not listener.put(text, position=position):
                listener.put(text, position=position)  # It has been emptied: now there is room.


class Hub:
    """The channels of one event loop. All methods are to be called on that loop.

    ``count_firing`` is called after each reading, in its thread; many channels of a process share
    one look at the alerts.
    """

    def __init__(
        self,
        *,
        interval: float = INTERVAL,
        unanswered: float = UNANSWERED,
        max_streams: int = MAX_STREAMS,
        count_firing: Callable[[], int | None] = firing_alerts.count,
    ) -> None:
        self._interval = interval
        self._unanswered = unanswered
        self._max_streams = max_streams
        self._count_firing = count_firing
        self._streams = 0
        self._channels: dict[str, _Channel] = {}

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._streams

    @property
    def is_full(self) -> bool:
        return self._streams >= self._max_streams

    def join(
        self, name: str, make_feed: Callable[[], Feed], *, hears_alerts: bool = False
    ) -> Listener:
        """Start to listen to a channel; it is read from now on, if it was not yet.

        Raises:
            TooManyStreams: the process is at its limit; nothing was joined.
        """
        if self.is_full:
            raise TooManyStreams
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = _Channel(make_feed())
            channel.task = asyncio.get_running_loop().create_task(self._run(channel), name=name)
        listener = Listener(hears_alerts=hears_alerts)
        channel.listeners.add(listener)
        self._streams += 1
        channel.greet(listener)
        return listener

    def leave(self, name: str, listener: Listener) -> None:
        """Stop listening. When nobody listens any more, the channel is not read any more."""
        channel = self._channels.get(name)
        if channel is None or listener not in channel.listeners:
            return
        channel.listeners.discard(listener)
        self._streams -= 1
        if not channel.listeners:
            del self._channels[name]
            if channel.task is not None:
                channel.task.cancel()

    async def _run(self, channel: _Channel) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            pause = self._interval if await self._read(channel) else INTERVAL_FAILING
            await asyncio.sleep(max(0.0, started + pause - loop.time()))

    async def _read(self, channel: _Channel) -> bool:
        work = asyncio.ensure_future(asyncio.to_thread(look, channel.feed, self._count_firing))
        try:
            while not (await asyncio.wait({work}, timeout=self._unanswered))[0]:
                channel.fail(503, "The databases have not answered yet.")
            channel.move_to(work.result())
        except EngineError as error:
            _log.warning("live.read_failed", code=error.code, error=error.message)
            channel.fail(status_of_code(error.code), error.message)
            return False
        except Exception:
            # A bug in a feed must not end the channel silently: its pages would look up to date.
            _log.exception("live.read_broken")
            channel.fail(500, "Reading failed.")
            return False
        finally:
            work.cancel()
        return True


def look(feed: Feed, count_firing: Callable[[], int | None] = firing_alerts.count) -> Reading:
    """Read in this thread, and count the alerts that fire, without waiting twice for a database
    that does not answer, and close what Django has opened for it.

    Raises:
        CoordinatorUnavailable: Django's tables, which are in that database, cannot be read.
        EngineError: whatever the feed raises.
    """
    try:
        with absences.remembered():
            return replace(feed.read(), firing=count_firing())
    except DATABASE_AWAY as error:
        raise CoordinatorUnavailable from error
    finally:
        connections.close_all()


def _hello(position: str) -> str:
    return frame("hello", {"every_ms": int(INTERVAL * 1000)}, position=position)


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def hub() -> Hub:
    """The hub of the running event loop; a server process has one."""
    loop = asyncio.get_running_loop()
    for known in [known for known in _hubs if known.is_closed()]:
        del _hubs[known]
    return _hubs.setdefault(loop, Hub())

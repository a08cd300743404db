"""Group commit: callers that arrive while a call is under way share the next call.

One caller at a time is the leader: it makes the call for everybody who is waiting, while they
sleep. Then one of those who arrived meanwhile becomes the leader. A caller that arrives when no
call is under way leads at once, so a lone caller pays no delay; under load one commit serves many.
It takes only the callers' own threads, and no timer.

The callers that have shared a call are woken one by one, each by the one before it. Woken all at
once they would compete for Python's global lock, which only one of them gets. (Woken one by one, 32
callers of the append make a fifth more calls.)

Invariants
    Every request is part of exactly one call, which began after the request had arrived.
    Every caller gets its answer, or the error of the call that its request was part of, whatever
    that call raised. Only a caller that is interrupted while it waits (by a signal in the main
    thread) leaves without either, and it does not hold up the others.
    A call has its requests in the order in which they arrived.
    A leader waits for no server that is known to be away (engine.postgres.pool_cache).
    A call for several runs under no deadline (engine.postgres.deadlines): others must not fail
    because of its leader's. A caller whose deadline has passed by the time it would lead gives the
    lead away.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from engine.postgres import deadlines
from engine.postgres.pool_cache import hurried

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class _Caller(Generic[Request, Answer]):
    """A caller that waits. It is woken with an answer, with an error, or to lead."""

    __slots__ = ("answers", "asleep", "behind", "error", "leads", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.answers: list[Answer] = []
        self.error: BaseException | None = None
        self.leads = False
        #: Those that share the call and are asleep, the next to be woken at the end of the list. It
        #: is one list for all of them.
        self.behind: list[_Caller[Request, Answer]] = []
        self.asleep = threading.Lock()
        self.asleep.acquire()


class Combiner(Generic[Request, Answer]):
    """Combines calls of one kind, such as appends to one partition. Thread-safe.

    Args:
        call: answers several requests, in their order; runs in the thread of one of the callers.
        size: the size of a request, in the unit of ``limit``.
        limit: the largest total size of one call; a single request that is larger goes alone.
    """

    def __init__(
        self,
        call: Callable[[Sequence[Request]], Sequence[Answer]],
        *,
        size: Callable[[Request], int] = lambda _: 1,
        limit: int = 100,
    ) -> None:
        self._call = call
        self._size = size
        self._limit = limit
        self._lock = threading.Lock()
        self._led = False
        self._waiting: list[_Caller[Request, Answer]] = []

    def __call__(self, request: Request) -> Answer:
        """Answer one request, possibly together with those of other threads.

        Raises:
            TimeLimitExceeded: the caller's deadline passed while it waited.
            Whatever ``call`` raises; every caller gets a copy of its own.
        """
        with self._lock:
            if not self._led:
                self._led = True
                mine = None
            else:
                mine = _Caller[Request, Answer](request)
                self._waiting.append(mine)
        if mine is None:
            try:
                [answer] = self._make_call([request])
            finally:
                self._pass_on()
            return answer
        try:
            mine.asleep.acquire()
            if mine.leads:
                deadlines.check()
            else:
                self._wake_behind(mine)
        except BaseException:
            self._give_up(mine)
            raise
        if not mine.answers and mine.error is None:
            self._lead(mine)
        if mine.error is not None:
            raise mine.error
        [answer] = mine.answers
        return answer

    def _lead(self, mine: _Caller[Request, Answer]) -> None:
        group = self._next_group()
        try:
            with deadlines.lifted():
                answers = self._make_call([caller.request for caller in group])
            for caller, answer in zip(group, answers, strict=True):
                caller.answers.append(answer)
        except BaseException as error:
            for caller in group:
                caller.error = error if caller is mine else _own(error)
        finally:
            self._pass_on()
            self._wake_behind(mine)

    def _make_call(self, requests: Sequence[Request]) -> Sequence[Answer]:
        """In a hurry, because a leader that waits for a server that is away holds up everybody."""
        with hurried():
            return self._call(requests)

    def _next_group(self) -> list[_Caller[Request, Answer]]:
        """The leader, which is the first in the queue, and as many of the others as fit."""
        group: list[_Caller[Request, Answer]] = []
        room = self._limit
        with self._lock:
            for caller in self._waiting:
                room -= self._size(caller.request)
                if group and room < 0:
                    break
                group.append(caller)
            del self._waiting[: len(group)]
            behind = group[:0:-1]
            for caller in group:
                caller.behind = behind
        return group

    def _pass_on(self) -> None:
        with self._lock:
            self._wake_next()

    def _wake_next(self) -> None:
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].asleep.release()
        else:
            self._led = False

    def _wake_behind(self, mine: _Caller[Request, Answer]) -> None:
        with self._lock:
            if mine.behind:
                mine.behind.pop().asleep.release()

    def _give_up(self, mine: _Caller[Request, Answer]) -> None:
        """Take a caller that stopped waiting out of the queue. If a call has taken its request
        already, that call goes on, and who is behind it is woken none the less."""
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                if mine.leads:
                    self._wake_next()
            elif mine in mine.behind:
                mine.behind.remove(mine)
            elif mine.behind:
                mine.behind.pop().asleep.release()


def _own(error: BaseException) -> BaseException:
    """A copy of an error for one caller, since threads must not share a traceback. An interrupt of
    the leader's thread is none of the others' business: they get a RuntimeError instead."""
    if not isinstance(error, Exception):
        return RuntimeError(f"The call was broken off in another thread: {error!r}")
    own = copy.copy(error)
    own.__cause__ = error
    return own

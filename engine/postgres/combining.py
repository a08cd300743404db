"""Callers who come while a call is under way share the next one (group commit).

One caller at a time, the leader, makes the call for all who wait; the others sleep. Then the lead
goes to one of those who have come meanwhile. Who comes alone leads at once and waits for nobody, so
a lone caller pays no delay; under load one commit serves many. Threads only, no timers.

Invariants
    A request is in exactly one call, one that began after the request had come.
    Every caller gets its answer or the error of the call that its request was in; none is lost,
    whatever the call raised. Who is interrupted while waiting (a signal in the main thread) goes
    without one, and without holding up the others.
    Requests are in the call in the order in which they came.
    Who has no time left when he is to lead does not, so that nobody else is told of it: a call goes
    by its leader's deadline (engine.postgres.deadlines).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from engine.postgres import deadlines

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class _Caller(Generic[Request, Answer]):
    """One who waits: woken with an answer, with an error, or to lead."""

    __slots__ = ("answers", "asleep", "error", "leads", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.answers: list[Answer] = []
        self.error: BaseException | None = None
        self.leads = False
        self.asleep = threading.Lock()
        self.asleep.acquire()


class Combiner(Generic[Request, Answer]):
    """Combines calls of one kind, such as appends to one partition. Thread-safe.

    Args:
        call: answers requests together, in their order; runs in the thread of one of the callers.
        size: what a request counts.
        limit: what a call's requests count at most; a single larger one goes alone.
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
            Whatever ``call`` raises; each caller its own copy of it.
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
                [answer] = self._call([request])
            finally:
                self._pass_on()
            return answer
        try:
            mine.asleep.acquire()
            if mine.leads:
                deadlines.check()
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
            answers = self._call([caller.request for caller in group])
            for caller, answer in zip(group, answers, strict=True):
                caller.answers.append(answer)
        except BaseException as error:
            for caller in group:
                caller.error = error if caller is mine else _own(error)
        finally:
            self._pass_on()
            for caller in group:
                caller.asleep.release()

    def _next_group(self) -> list[_Caller[Request, Answer]]:
        """The leader, who is the first of those who wait, and as many of the others as fit."""
        group: list[_Caller[Request, Answer]] = []
        room = self._limit
        with self._lock:
            for caller in self._waiting:
                room -= self._size(caller.request)
                if group and room < 0:
                    break
                group.append(caller)
            del self._waiting[: len(group)]
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

    def _give_up(self, mine: _Caller[Request, Answer]) -> None:
        """Take one who does not wait any more out of the queue; a call that his request is in
        already goes on without him."""
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                if mine.leads:
                    self._wake_next()


def _own(error: BaseException) -> BaseException:
    """A caller's own copy: threads must not share a traceback. An interrupt of the leader's is not
    the others': they are told that their call has been broken off."""
    if not isinstance(error, Exception):
        return RuntimeError(f"The call was broken off in another thread: {error!r}")
    own = copy.copy(error)
    own.__cause__ = error
    return own

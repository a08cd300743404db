"""Between clients and a target: keeps the history, and loses, doubles and delays requests."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import Protocol

import msgspec

from tests.checker.history import History, Op


class Refused(Exception):
    """Refused for certain; nothing has happened."""

    def __init__(self, code: str, status: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


class Unknown(Exception):
    """No answer, or one that says "try again"."""


class Target(Protocol):
    """Carries out requests.

    Raises:
        Refused, Unknown: what became of it.
    """

    def perform(self, op: Op) -> Op:
        """Answer with a copy that holds the results."""


@dataclass(frozen=True)
class Trouble:
    """How often, of all requests: lost on the way, answer lost, sent again behind one's back.

    What is lost on the way or sent again may be carried out much later. ``dawdling``: how often a
    request takes its time between the coordinator and the broker.
    """

    lost: float = 0.02
    unanswered: float = 0.03
    doubled: float = 0.04
    late: float = 0.05
    dawdling: float = 0.08


CALM = Trouble(lost=0, unanswered=0, doubled=0, late=0, dawdling=0)


class Network:
    """Sends requests to a target; thread-safe."""

    def __init__(
        self, target: Target, history: History, rng: Random, trouble: Trouble = CALM
    ) -> None:
        self._target = target
        self.history = history
        self._rng = rng
        self._trouble = trouble
        self._parked: list[Op] = []
        self._lock = Lock()

    def send(self, process: str, op: Op) -> Op:
        """Carry out one request as the client ``process`` sees it."""
        with self._lock:
            chance = [self._rng.random() for _ in range(4)]
        trouble = self._trouble
        if chance[0] < trouble.late:
            self.deliver_late(1)
        if chance[1] < trouble.lost:
            self._park(op)
            return self._lose(process, op)
        if chance[2] < trouble.doubled:
            self._park(op)
        return self._carry_out(process, op, answered=chance[3] >= trouble.unanswered)

    def deliver_late(self, at_most: int | None = None) -> None:
        """Carry out requests that were on their way all the time; nobody hears the answers but the
        history."""
        with self._lock:
            self._rng.shuffle(self._parked)
            count = len(self._parked) if at_most is None else at_most
            late, self._parked = self._parked[:count], self._parked[count:]
        for op in late:
            self._carry_out("late", op, answered=True)

    def _park(self, op: Op) -> None:
        with self._lock:
            self._parked.append(op)

    def _lose(self, process: str, op: Op) -> Op:
        return self.history.add(
            msgspec.structs.replace(op, process=process, start=self.history.clock())
        )

    def _carry_out(self, process: str, op: Op, *, answered: bool) -> Op:
        start = self.history.clock()
        sent = msgspec.structs.replace(op, process=process, start=start)
        try:
            done = self._target.perform(sent)
            done.answer = "ok"
        except Refused as refused:
            done = sent
            done.answer, done.code, done.status = "fail", refused.code, refused.status
        except Unknown:
            done, answered = sent, False
        if not answered:
            return self.history.add(msgspec.structs.replace(op, process=process, start=start))
        done.end = self.history.clock()
        return self.history.add(done)

"""All schedules of two calls with at most two preemptions, statement by statement.

Two players run on threads of their own and stop before every statement and every COMMIT. A schedule
``(k, m)`` lets one go k statements, the other m, the first to its end and the other to its own. Who
waits for a lock (PostgreSQL says so) gives way. Every schedule must look like one of the two serial
orders: same answers, same state. What two calls can do to one another is found with two preemptions
almost always, and there are few enough schedules to try all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from engine.coordinator import finalization
from engine.model.errors import EngineError
from engine.postgres.database import Database
from engine.postgres.session import Session

#: Session's ways to run a statement.
_STATEMENTS = ("all", "one", "run", "adhoc", "batch", "ask")
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname <> 'postgres'"
)
_PATIENCE = 0.002
#: A statement that takes longer than all of them is taken for one that waits.
_LOOKS = 400
_role = threading.local()


class Player:
    """One call, stopped before each of its statements."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.statements = 0
        self.answer: object = None
        self.done = False
        self._call = call
        self._changed = threading.Condition()
        self._stopped = self._granted = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def running(self) -> bool:
        return not self.done and not self._stopped

    def stop(self) -> None:
        """On the player's thread: wait for permission to run the next statement."""
        with self._changed:
            self.statements += 1
            self._stopped = True
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._granted, 30), "nobody plays"
            self._granted = self._stopped = False

    def step(self, game: Game) -> bool:
        """Run one statement, if it can; False when it is done or waits for a lock."""
        if not self._settle(game):
            return False
        with self._changed:
            self._granted, self._stopped = True, False
            self._changed.notify_all()
        return self._settle(game)

    def _settle(self, game: Game) -> bool:
        for _ in range(_LOOKS):
            with self._changed:
                if self._changed.wait_for(lambda: not self.running, _PATIENCE):
                    return self._stopped
            waiting = game.waiting()
            running = [player for player in game.players if player.running]
            if self in running and waiting >= len(running):
                return False
        # It waits for no lock of PostgreSQL's: for the other one's thread, whose call it shares.
        return False

    def _run(self) -> None:
        _role.player = self
        try:
            self.answer = self._call()
        except EngineError as error:
            self.answer = error.code
        except Exception as error:
            self.answer = repr(error)
        with self._changed:
            self.done = True
            self._changed.notify_all()


class Game:
    """Two players, and PostgreSQL's word on who waits."""

    def __init__(self, watch: psycopg.Connection[Any], *calls: Callable[[], object]) -> None:
        self._watch = watch
        self.players = [Player(call) for call in calls]

    def waiting(self) -> int:
        row = self._watch.execute(_WAITING).fetchone()
        assert row is not None
        return int(row[0])

    def play(self, turns: list[tuple[int, int]]) -> list[object]:
        """Give players turns of so many statements, then let both end; answers, in their order."""
        for number, statements in turns:
            for _ in range(statements):
                if not self.players[number].step(self):
                    break
        for _ in range(10_000):
            if all(player.done for player in self.players):
                return [player.answer for player in self.players]
            for number in (turns[0][0], 1 - turns[0][0]):
                while self.players[number].step(self):
                    pass
        raise AssertionError("the players wait for one another for ever")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two calls on a world made anew each time, and what is to be seen of it afterwards."""

    prepare: Callable[[], Any]
    calls: tuple[Callable[[Any], object], Callable[[Any], object]]
    look: Callable[[Any], object]


@dataclass(frozen=True)
class Explored:
    """How many schedules were played, and those that no serial order explains."""

    schedules: int
    wrong: list[tuple[list[tuple[int, int]], object]]


def explore(pair: Pair, watch: psycopg.Connection[Any], at_most: int | None = None) -> Explored:
    """Play all schedules of a pair, or ``at_most`` so many, spread over all."""

    def run(turns: list[tuple[int, int]]) -> tuple[tuple[list[object], object], list[int]]:
        world = pair.prepare()
        first, second = pair.calls
        with _stopping_players():
            game = Game(watch, lambda: first(world), lambda: second(world))
            answers = game.play(turns)
        return (answers, pair.look(world)), [player.statements for player in game.players]

    serial, lengths = [], []
    for number in (0, 1):
        outcome, statements = run([(number, 10_000), (1 - number, 10_000)])
        serial.append(outcome)
        lengths.append(statements)
    longest = [max(length) for length in zip(*lengths, strict=True)]
    schedules = [
        [(number, before), (1 - number, between)]
        for number in (0, 1)
        for before in range(1, longest[number])
        for between in range(1, longest[1 - number] + 1)
    ]
    if at_most is not None:
        schedules = schedules[:: max(1, -(-len(schedules) // at_most))]
    wrong = []
    for turns in schedules:
        outcome, _ = run(turns)
        if outcome not in serial:
            wrong.append((turns, outcome))
    return Explored(len(schedules), wrong)


@contextmanager
def _stopping_players() -> Iterator[None]:
    """Stop players before each statement and COMMIT; everybody else goes on as ever."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _STATEMENTS:
            patch.setattr(Session, name, _stopped_before(getattr(Session, name)))
        patch.setattr(Database, "ask", _stopped_before(Database.ask))
        patch.setattr(
            psycopg.Transaction, "__exit__", _stopped_before(psycopg.Transaction.__exit__)
        )
        patch.setattr(finalization, "ThreadPoolExecutor", _SameRole)
        yield


class _SameRole(ThreadPoolExecutor):
    """Threads that play the role of the one that made them."""

    def __init__(self, size: int, name: str) -> None:
        player = getattr(_role, "player", None)
        super().__init__(size, name, initializer=lambda: setattr(_role, "player", player))


def _stopped_before(method: Callable[..., Any]) -> Callable[..., Any]:
    def stopped(*args: Any, **kwargs: Any) -> Any:
        player = getattr(_role, "player", None)
        if player is not None:
            player.stop()
        return method(*args, **kwargs)

    return stopped

"""What this process has stored of subscriptions' states a moment ago.

A consumer's calls come one after the other, mostly to one process: each finds the state as the one
before left it. So a call may decide on what is remembered and store at once, without reading. The
store compares the versions, as it does with what was read: it says "changed" when anybody has
written since, or when the partition does not serve any more, and then the call begins anew by
reading. Nothing is answered that no store has confirmed.

Invariants
    A remembered state is used once: whoever takes it has it alone.
    What a crash of the server may take back is not believed: no connection outlives one, so what
    was stored before a connection was made is forgotten (``Database.connections``).
    A state with pending acknowledgements or dead letters is not kept: it stands in several rows.
    Where others write too, so that what is remembered is mostly wrong, less and less is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from engine.postgres.database import Database
from engine.subscription.state import State

#: For how long the database's clock is taken to go on like this process's.
_SECONDS = 5.0
#: What is kept of one state's messages, and of all, in bytes.
_LARGEST = 1024 * 1024
_ROOM = 32 * 1024 * 1024
#: A state's share beside its messages.
_STATE_BYTES = 4096
#: After so many mistakes in a row, hardly anything is remembered.
_MOST_DOUBT = 6

#: A broker, and a subscription's and a partition's ids there.
_Key = tuple[Database, int, int]


class Unsure(Exception):
    """A remembered state is not enough to decide on."""


class _Kept(msgspec.Struct, frozen=True):
    state: State
    at: float
    connections: int
    size: int


@dataclass(slots=True)
class _Doubt:
    """How often in a row a memory has been wrong, and how many are not kept therefore."""

    mistakes: int
    skip: int


class Memory:
    """Remembers states by cursor. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[_Key, _Kept] = {}
        self._doubts: dict[_Key, _Doubt] = {}
        self._right: set[_Key] = set()
        self._size = 0

    def keep(
        self, database: Database, subscription_id: int, states: Sequence[State], *, connections: int
    ) -> None:
        """Remember what has been stored; ``connections``: how many there were before that."""
        now = time.monotonic()
        for state in states:
            if state.pending or state.tentative or state.dead:
                continue
            window = None if state.window is None else state.window.within(_LARGEST)
            as_is = window is state.window and state.remembered
            kept = _Kept(
                state=state if as_is else state.changed(window=window, remembered=True),
                at=now,
                connections=connections,
                size=_STATE_BYTES + (0 if window is None else window.size),
            )
            with self._lock:
                self._put((database, subscription_id, state.partition_id), kept)

    def take(
        self, database: Database, subscription_id: int, partition_ids: Sequence[int]
    ) -> list[State] | None:
        """The states of these partitions, ascending, as if they had been read now; None when one
        is not remembered. They are forgotten."""
        now = time.monotonic()
        states = []
        with self._lock:
            for partition_id in sorted(partition_ids):
                kept = self._pop((database, subscription_id, partition_id))
                if kept is None or now > kept.at + _SECONDS:
                    return None
                if kept.connections != database.connections:
                    return None
                passed_ms = int((now - kept.at) * 1000)
                states.append(kept.state.changed(now_ms=kept.state.now_ms + passed_ms))
        return states

    def judge(
        self, database: Database, subscription_id: int, partition_ids: Sequence[int], *, right: bool
    ) -> None:
        """Tell whether what was taken did still stand."""
        with self._lock:
            for partition_id in partition_ids:
                key = (database, subscription_id, partition_id)
                if right:
                    self._doubts.pop(key, None)
                    self._right.add(key)
                    continue
                self._right.discard(key)
                before = self._doubts.get(key)
                mistakes = min(_MOST_DOUBT, 1 + (before.mistakes if before else 0))
                self._doubts[key] = _Doubt(mistakes, 2**mistakes)

    def is_right(
        self, database: Database, subscription_id: int, partition_ids: Sequence[int]
    ) -> bool:
        """Whether what was last taken of each of these partitions did still stand."""
        return all((database, subscription_id, each) in self._right for each in partition_ids)

    def _put(self, key: _Key, kept: _Kept) -> None:
        self._pop(key)
        doubt = self._doubts.get(key)
        if doubt is not None and doubt.skip > 0:
            doubt.skip -= 1
            return
        self._kept[key] = kept
        self._size += kept.size
        while self._size > _ROOM:
            self._pop(next(iter(self._kept)))  # the oldest
        if max(len(self._doubts), len(self._right)) > _ROOM // _STATE_BYTES:
            self._doubts.clear()
            self._right.clear()

    def _pop(self, key: _Key) -> _Kept | None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept.size
        return kept

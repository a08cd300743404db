"""A memory of the subscriptions' states that this process has stored a moment ago.

A consumer's calls come one after the other, mostly to the same process, and each finds the state as
the one before left it. So a call may decide on a remembered state and store at once, without
reading. The store compares versions, as it does after a read. It answers "changed" when anybody has
written since, or when the partition does not serve any more; then the call starts over with a read.
No call answers anything that a store has not confirmed.

Invariants
    A remembered state is used once: taking it removes it.
    A state that a crash of the server may have undone is not used. Every crash ends all
    connections, so a state is forgotten when a connection was made after it was stored
    (``Database.connections``).
    A state with pending acknowledgements or dead letters is not kept, because it is stored in
    several rows.
    Where other processes write as well, so that remembered states are mostly outdated, states are
    kept less and less often.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from engine.postgres.database import Database
from engine.subscription.state import State

#: After so many seconds a state is not used any more, because its time is reckoned by this
#: process's clock from then on.
_SECONDS = 5.0
#: Bytes of messages that are kept with one state, and of everything together.
_LARGEST = 1024 * 1024
_ROOM = 32 * 1024 * 1024
#: What a state counts beside its messages, in bytes.
_STATE_BYTES = 4096
#: Mistakes in a row that are counted: after n of them, 2 ** n states are not kept.
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
    """How often in a row the memory of a cursor was outdated, and how many of the next states are
    therefore not kept."""

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
        """Remember states that have been stored; ``connections``: ``Database.connections`` as it
        was before they were decided on."""
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
        """Take the states of some partitions out of the memory, ascending by partition, with the
        time moved on to now; None when one of them is not remembered."""
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
        """Note whether the states that were taken were still right."""
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
        """Whether the states that were last taken for these partitions were still right."""
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

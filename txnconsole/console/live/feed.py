"""Feeds: what a channel of live updates reads."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of looking at the databases once.

    Attributes:
        position: identifies what was seen; equal positions mean that nothing changed.
        change: what to tell the listeners; None when nothing changed since the last reading.
        firing: how many alerts fire, which has nothing to do with the channel: it is added to each
            reading, for the frame around every page. None when that is not known.
    """

    position: str
    change: Mapping[str, object] | None
    firing: int | None = None


class Feed(Protocol):
    """Reads one channel. The hub calls it from a thread, never twice at the same time."""

    def read(self) -> Reading:
        """Look once.

        Raises:
            EngineError: the databases cannot be read now.
        """


class ChangeFeed(ABC):
    """A feed that tells each change once."""

    _position = ""

    @abstractmethod
    def look(self) -> Reading:
        """The position, and what to tell the listeners when it differs from the last one."""

    def read(self) -> Reading:
        found = self.look()
        if found.position == self._position:
            return Reading(found.position, None)
        self._position = found.position
        return found


def digest(*values: object) -> str:
    """A short text that identifies values of JSON types, the same in every process."""
    return hashlib.blake2s(msgspec.json.encode(values), digest_size=6).hexdigest()

"""What a channel of live updates reads."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
from django.db import InterfaceError, OperationalError, connections

from engine.model.errors import CoordinatorUnavailable


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the databases.

    Attributes:
        position: names what was seen; equal positions mean that nothing changed.
        change: what to tell the listeners, or None when nothing changed since the last reading.
    """

    position: str
    change: Mapping[str, object] | None


class Feed(Protocol):
    """Reads one channel. The hub calls it from a thread, never twice at once."""

    def read(self) -> Reading:
        """Look once.

        Raises:
            EngineError: the databases cannot be read now.
        """


class TableFeed(ABC):
    """A feed of Django's tables: keeps no connection, and tells of a change once."""

    def __init__(self) -> None:
        self._position = ""

    @abstractmethod
    def look(self) -> Reading:
        """The position, and what to tell when it is not the last one."""

    def read(self) -> Reading:
        """Look once.

        Raises:
            CoordinatorUnavailable: the database cannot be read.
            Whatever :meth:`look` raises.
        """
        try:
            found = self.look()
        except (OperationalError, InterfaceError) as error:
            raise CoordinatorUnavailable from error
        finally:
            connections.close_all()  # This thread belongs to no request that would give it back.
        changed = found.position != self._position
        self._position = found.position
        return found if changed else Reading(found.position, None)


def digest(*values: object) -> str:
    """A short name for values of JSON types, equal in every process."""
    return hashlib.blake2s(msgspec.json.encode(values), digest_size=6).hexdigest()

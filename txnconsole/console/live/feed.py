"""What a channel of live updates reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec


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


def digest(*values: object) -> str:
    """A short name for values of JSON types, equal in every process."""
    return hashlib.blake2s(msgspec.json.encode(values), digest_size=6).hexdigest()

"""Options of the data source that reading and writing share."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from txnconsole.client import Client

_Word = TypeVar("_Word", bound=str)

#: The options of reads and of writes; docs/pipeline.md has what they mean.
NAMES = (
    *("url", "token", "topic", "brokers", "coordinator", "offloadDirectory"),
    *("isolation", "order", "startingOffsets", "endingOffsets", "snapshot", "subscription"),
    *("maxMessagesPerTrigger", "failOnDataLoss", "bytesPerTask", "pushFilters", "columns"),
    *("sink", "batch", "guard", "checkpointLocation", "transactionTimeoutMs"),
)
#: By their names in lower case, in which Spark hands them over.
_NAMES = {name.lower(): name for name in NAMES}
#: By difflib's ratio; of three or four letters all but one. What is less alike is let through.
_ALIKE = 0.8


def require_spelt(given: Iterable[str]) -> None:
    """Refuse what was meant to be an option and is none, but for a letter or two: it would be
    ignored. Names that are like none are left alone, since Spark and its users pass others along.

    Raises:
        ValueError: a name is nearly that of an option; the error tells which.
    """
    for name in sorted(given):
        if name.lower() in _NAMES:
            continue
        if near := _nearest(name.lower()):
            raise ValueError(f"There is no option {name[:40]}; the nearest is {_NAMES[near]}.")


def _nearest(name: str) -> str | None:
    """The option, in lower case, that a name is most like; None when it is like none."""
    alike = {option: difflib.SequenceMatcher(None, option, name).ratio() for option in _NAMES}
    nearest = max(alike, key=alike.__getitem__)
    needed = min(_ALIKE, (len(nearest) - 1) / len(nearest))
    return nearest if alike[nearest] >= needed else None


@dataclass(frozen=True)
class Connection:
    """The server's URL and the token: from the options ``url`` and ``token``, else the environment.

    On one machine the environment is the better place for a token. On a cluster use the option;
    Spark hides options of that name in plans and logs.
    """

    url: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read the options.

        Raises:
            ValueError: neither the options nor the environment have them.
        """
        url = options.get("url") or os.environ.get("TXNCONSOLE_URL")
        token = options.get("token") or os.environ.get("TXNCONSOLE_TOKEN")
        if not url or not token:
            raise ValueError("Give url and token, or set TXNCONSOLE_URL and TXNCONSOLE_TOKEN.")
        return cls(url, token)

    def client(self) -> Client:
        """A client that all tasks of this process share: Spark's Python workers run many."""
        return _client(self.url, self.token)


@functools.lru_cache(maxsize=8)
def _client(url: str, token: str) -> Client:
    return Client(url, token)


def positive(name: str, text: str, *, most: int = 2**63 - 1) -> int:
    """Read a whole number above 0; what is larger than Spark's long would fail far from here.

    Raises:
        ValueError: the text is something else, or the number is above ``most``.
    """
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{name} is a whole number above 0, not {text[:40]!r}.")
    if int(text) > most:
        raise ValueError(f"{name} is {most} at most, not {text[:40]!r}.")
    return int(text)


def name(option: str, text: str, *, longest: int) -> str:
    """Read a name that the server is told.

    Raises:
        ValueError: it is empty, or longer than the server takes.
    """
    if not 0 < len(text) <= longest:
        raise ValueError(f"{option} is a name of 1 to {longest} characters, not {text[:40]!r}.")
    return text


def choice(option: str, options: Mapping[str, str], words: tuple[_Word, _Word]) -> _Word:
    """One of two words, the first when the option is not given.

    Raises:
        ValueError: it is given, and neither of them.
    """
    text = options.get(option, words[0]).lower()
    for word in words:
        if text == word:
            return word
    raise ValueError(f"{option} is {words[0]} or {words[1]}, not {text[:40]!r}.")


def flag(name: str, text: str) -> bool:
    """Read ``true`` or ``false``.

    Raises:
        ValueError: the text is something else.
    """
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"{name} is true or false, not {text[:40]!r}.")
    return text.lower() == "true"

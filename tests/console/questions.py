"""How often a page asks its databases something and waits for the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

_COMMENTS = re.compile(r"^\s*(--.*\n\s*)+")
#: What the frame of every page asks (who reads, how they like it, what is firing), and what a
#: process remembers for seconds.
_OF_EVERY_PAGE = re.compile(
    r"django_session|auth_user|auth_group|preferences_|alerts_|coordinator\.topic\b"
)
_FRAMES = ("BEGIN", "COMMIT", "ROLLBACK", "SET ", "SAVEPOINT", "RELEASE")


class Questions:
    """Counts what psycopg executes, Django's statements and the engine's alike. Those of one
    pipeline are one question; what only begins or ends a transaction is none, nor what every page
    asks about its reader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self._pipeline: object = None
        for kind in (psycopg.Cursor, psycopg.ServerCursor, psycopg.ClientCursor):
            if "execute" in vars(kind):
                self._watch(monkeypatch, kind)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
        execute = kind.execute

        def counted(cursor: Any, query: object, *args: object, **kwargs: object) -> object:
            self._note(str(query), getattr(cursor.connection, "_pipeline", None))
            return execute(cursor, query, *args, **kwargs)

        monkeypatch.setattr(kind, "execute", counted)

    def _note(self, query: str, pipeline: object) -> None:
        statement = _COMMENTS.sub("", query).lstrip()
        if statement.upper().startswith(_FRAMES) or _OF_EVERY_PAGE.search(statement):
            return
        if pipeline is not None and pipeline is self._pipeline:
            self.asked[-1] += f"\n+ {statement}"
        else:
            self.asked.append(statement)
        self._pipeline = pipeline

    @contextmanager
    def at_most(self, number: int) -> Iterator[None]:
        """Fail when the block asks more."""
        before = len(self.asked)
        yield
        asked = self.asked[before:]
        assert len(asked) <= number, "\n\n".join([f"{len(asked)} questions:", *asked])

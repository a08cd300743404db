"""How often a page asks its databases something and waits for the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

_COMMENTS = re.compile(r"^\s*(--.*\n\s*)+")
#: A topic by its name, which a process remembers for a second: whether that has passed is chance.
_REMEMBERED = re.compile(r"FROM coordinator\.topic\s+WHERE tenant = %\(tenant\)s")
#: What the frame of a page asks: the session, its user, and how the alerts stand.
FRAME = 3
_TRANSACTIONS = ("BEGIN", "COMMIT", "ROLLBACK", "SET ", "SAVEPOINT", "RELEASE")


class Questions:
    """Counts what psycopg executes, Django's statements and the engine's alike. Those of one
    pipeline are one question; what only begins or ends a transaction is none."""

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
        if statement.upper().startswith(_TRANSACTIONS) or _REMEMBERED.search(statement):
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

"""Counting what a page asks the engine's databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from engine.postgres.prepared import Prepared
from engine.postgres.session import Session


@dataclass
class Questions:
    """Exchanges with the engine's databases (several statements in one count once); the few that
    sessions and the frame around every page need are Django's, and not the page's own."""

    names: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.names)


@contextmanager
def asked() -> Iterator[Questions]:
    """Count the questions of a block."""
    questions = Questions()
    names = ("all", "one", "run", "adhoc", "batch", "ask")
    noted = {name: _noted(questions, getattr(Session, name)) for name in names}
    with mock.patch.multiple(Session, **noted):
        yield questions


def _noted(questions: Questions, method: Any) -> Any:
    def noted(self: Any, *args: Any, **params: Any) -> Any:
        first = args[0] if args else "batch"
        if isinstance(first, Prepared):
            first = first.name
        questions.names.append(first if isinstance(first, str) else str(first[0]))
        return method(self, *args, **params)

    return noted

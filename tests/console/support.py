"""Counting what a page asks its databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from django.db import connection
from django.test.utils import CaptureQueriesContext

from engine.postgres.database import Session


@dataclass
class Questions:
    """Round trips to any database: the engine's statements (several in one exchange count once) and
    Django's."""

    names: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.names)


@contextmanager
def asked() -> Iterator[Questions]:
    """Count the questions of a block. Only the thread of the test is counted on Django's side."""
    questions = Questions()
    names = ("all", "one", "run", "adhoc", "batch")
    noted = {name: _noted(questions, getattr(Session, name)) for name in names}
    with mock.patch.multiple(Session, **noted), CaptureQueriesContext(connection) as django:
        yield questions
    questions.names += [query["sql"] for query in django.captured_queries]


def _noted(questions: Questions, method: Any) -> Any:
    def noted(self: Any, *args: Any, **params: Any) -> Any:
        first = args[0] if args else "batch"
        questions.names.append(first if isinstance(first, str) else str(first[0]))
        return method(self, *args, **params)

    return noted

"""How a bug is planted in a running engine, and taken out again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import files
from inspect import isfunction
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from engine import Engine
from engine.postgres.database import Database
from engine.postgres.prepared import Prepared
from tests.engine.support import sql

Plant = Callable[[Engine], AbstractContextManager[None]]


@dataclass(frozen=True)
class Bug:
    """One piece. ``seen``: where it was found, or what it stands for. ``operators``: what these do
    in each round."""

    name: str
    seen: str
    plant: Plant
    operators: tuple[str, ...] = ("recover",)

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def function(name: str, *changes: tuple[str, str], kind: str = "broker") -> Plant:
    """Change the text of one of the brokers' functions, or of the coordinators'."""

    @contextlib.contextmanager
    def planted(engine: Engine) -> Iterator[None]:
        text = (files("engine.sql") / f"functions/{kind}/{name}.sql").read_text()
        databases = [engine.database] if kind == "coordinator" else list(engine._brokers)
        _install(databases, _changed(text, changes, name))
        try:
            yield
        finally:
            _install(databases, text)

    return planted


def query(name: str, *changes: tuple[str, str]) -> Plant:
    """Change one of the engine's named statements."""

    @contextlib.contextmanager
    def planted(engine: Engine) -> Iterator[None]:
        databases = [engine.database, *engine._brokers]
        known = [
            (database._queries, database._queries[name])
            for database in databases
            if name in database._queries
        ]
        assert known, f"no database knows {name}"
        for queries, text in known:
            queries[name] = _changed(text, changes, name)
        try:
            yield
        finally:
            for queries, text in known:
                queries[name] = text

    return planted


def prepared(statement: Prepared, *changes: tuple[str, str]) -> Plant:
    """Change one of the engine's prepared statements; its parameters are ``$1`` and so on."""

    @contextlib.contextmanager
    def planted(engine: Engine) -> Iterator[None]:
        del engine
        text = _changed(statement._text.decode(), changes, statement.name)
        # Connections know the right one by its name.
        with (
            patch.object(statement, "_text", text.encode()),
            patch.object(statement, "_name", f"planted_{uuid4().hex}".encode()),
        ):
            yield

    return planted


def python(target: Callable[[Engine], Any], name: str, make: Callable[[Any], Any]) -> Plant:
    """Replace a function; ``make`` gets the right one and returns the wrong one.

    The wrong one must fit where the right one was: what fails at once is found too, but is another
    bug than the one that is meant.
    """

    @contextlib.contextmanager
    def planted(engine: Engine) -> Iterator[None]:
        owner = target(engine)
        wrong = make(getattr(owner, name))
        misfits: list[Exception] = []

        def watched(*arguments: Any, **options: Any) -> Any:
            try:
                return wrong(*arguments, **options)
            except (TypeError, AttributeError, ValueError) as misfit:
                misfits.append(misfit)
                raise

        with patch.object(owner, name, watched if isfunction(wrong) else wrong):
            yield
        assert not misfits, f"{name} has changed: this piece of the museum must follow ({misfits})"

    return planted


def together(*plants: Plant) -> Plant:
    @contextlib.contextmanager
    def planted(engine: Engine) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for plant in plants:
                stack.enter_context(plant(engine))
            yield

    return planted


def _changed(text: str, changes: tuple[tuple[str, str], ...], name: str) -> str:
    for old, new in changes:
        assert old in text, f"{name} has changed: this piece of the museum must follow ({old!r})"
        text = text.replace(old, new)
    return text


def _install(databases: Iterable[Database], text: str) -> None:
    for database in databases:
        sql(database, text.replace("%", "%%"))

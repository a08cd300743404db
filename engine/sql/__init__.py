"""The engine's SQL, as files: migrations, functions and named queries.

A query file holds blocks that begin with ``-- name --`` and a comment; Python asks for a statement
by its name. Nothing builds SQL from strings.

A migration is applied once, in the order of the names, and is never renamed: its name says that it
has been. A function's file is applied whenever its text has changed. Where its parameters or its
answer have changed, it drops what it was before, which ``CREATE OR REPLACE`` would keep or refuse.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import LiteralString

_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)


@cache
def queries(file: str) -> dict[str, LiteralString]:
    """Read the named statements of ``queries/<file>.sql``."""
    text = (files(__name__) / "queries" / f"{file}.sql").read_text()
    parts = _NAME.split(text)[1:]
    # The files are part of the program: their text is as literal as a string in the source.
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def scripts(folder: str) -> list[tuple[str, LiteralString]]:
    """Read the SQL files of a folder, such as ``migrations/broker``, ordered by name."""
    found = sorted(
        (file for file in (files(__name__) / folder).iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return [(file.name.removesuffix(".sql"), file.read_text()) for file in found]

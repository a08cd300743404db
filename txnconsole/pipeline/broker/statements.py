"""The statements of ``statements.sql``, as text that is complete.

COPY, by which Arrow batches come, takes no parameters: numbers are written into the text here, and
nothing else ever is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import LiteralString

#: Within a transaction, before anything else: all its reads answer from one snapshot.
ONE_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_SNAPSHOT = re.compile(r"[0-9A-F]+(-[0-9A-F]+)+")


@cache
def _all() -> dict[str, LiteralString]:
    text = (files(__package__) / "statements.sql").read_text()
    parts = _NAME.split(text)[1:]
    # The file is part of the program: its text is as literal as a string in the source.
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def named(name: str) -> LiteralString:
    """A statement with its parameters, for a driver that sends them."""
    return _all()[name]


def complete(name: str, numbers: Mapping[str, int], *, bodies: bool = True) -> str:
    """A statement with its numbers written into it; without ``bodies`` none are transferred."""
    text = named(name).replace("{body}", "body" if bodies else "NULL::bytea AS body")
    return text % {key: format(value, "d") for key, value in numbers.items()}


def adopt(snapshot: str) -> LiteralString:
    """Go on in the view that another session has exported.

    Raises:
        ValueError: the text is not a snapshot's id.
    """
    if not _SNAPSHOT.fullmatch(snapshot):
        raise ValueError(f"{snapshot[:40]!r} is not the id of a snapshot.")
    return f"SET TRANSACTION SNAPSHOT '{snapshot}'"

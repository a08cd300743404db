"""The statements of ``statements.sql`` as complete texts.

Arrow batches come by COPY, which takes no parameters. Numbers are therefore written into the text
here; nothing else ever is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import LiteralString

#: The first statement of a transaction whose reads are all answered from one snapshot.
ONE_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_SNAPSHOT = re.compile(r"[0-9A-F]+(-[0-9A-F]+)+")


@cache
def _all() -> dict[str, LiteralString]:
    text = (files(__package__) / "statements.sql").read_text()
    parts = _NAME.split(text)[1:]
    # The file is part of the program, so its text is as safe as a literal in the source.
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def named(name: str) -> LiteralString:
    """A statement with placeholders, for a driver that sends parameters."""
    return _all()[name]


def complete(name: str, numbers: Mapping[str, int], *, bodies: bool = True) -> str:
    """A statement with its numbers written into it; without ``bodies`` it does not transfer any."""
    text = named(name).replace("{body}", "body" if bodies else "NULL::bytea AS body")
    return text % {key: format(value, "d") for key, value in numbers.items()}


def adopt(snapshot: str) -> LiteralString:
    """The statement that adopts the snapshot of another session.

    Raises:
        ValueError: the text is not the id of a snapshot.
    """
    if not _SNAPSHOT.fullmatch(snapshot):
        raise ValueError(f"{snapshot[:40]!r} is not the id of a snapshot.")
    return f"SET TRANSACTION SNAPSHOT '{snapshot}'"

"""The files of named statements, and their statements as PREPARE takes them."""

from __future__ import annotations

import re

from engine.coordinator import statements as coordinator_statements
from engine.log.brokers import FILES as BROKER_FILES

#: Of each file the database that its statements are for.
FILES = {
    "session": 0,
    **dict.fromkeys(coordinator_statements.FILES, 0),
    **dict.fromkeys(BROKER_FILES, 1),
}
_PARAMETER = re.compile(r"%\((\w+)\)s")


def numbered(statement: str) -> str:
    """With PostgreSQL's own parameters in place of psycopg's."""
    names = list(dict.fromkeys(_PARAMETER.findall(statement)))
    text = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    return text.replace("%%", "%")

"""The names of rules and channels."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from django.db import IntegrityError, transaction

from txnconsole.alerts.errors import AlertConflict, invalid


def stored_name(name: str) -> str:
    """A name of a rule or channel as it is stored.

    Raises:
        InvalidRequest: it cannot be one.
    """
    if not name.strip() or not name.isprintable() or len(name) > 120:
        raise invalid("name", "must have 1 to 120 printable characters")
    return name.strip()


@contextmanager
def unique_name(name: str) -> Generator[None]:
    """Give a row its name within the block, in a savepoint: the surrounding SQL transaction goes on
    when the name is refused.

    Raises:
        AlertConflict: another row has the name.
    """
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise AlertConflict(f"There is one named {name!r} already.") from error

"""What rules and channels share: their names, their versions, what is told of a bad field."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from django.db import IntegrityError, transaction

from engine.model.errors import InvalidRequest
from engine.model.moment import time_text
from txnconsole.alerts.errors import AlertConflict, AlertSettingsChanged
from txnconsole.alerts.models import Channel, Rule


def invalid(field: str, problem: str) -> InvalidRequest:
    """The error for one field with a value that it cannot have."""
    return InvalidRequest(f"{field}: {problem}.", field={field: problem})


def stored_name(name: str) -> str:
    """A name of a rule or channel as it is stored.

    Raises:
        InvalidRequest: it cannot be one.
    """
    if not name.strip() or not name.isprintable() or len(name) > 120:
        raise invalid("name", "must have 1 to 120 printable characters")
    return name.strip()


def version_of(stored: Rule | Channel) -> str:
    """What tells a rule or channel from what it was before its last change: ``changed_at``, as the
    REST contract writes it."""
    return time_text(stored.changed_at)


def require_unchanged(stored: Rule | Channel, seen: str | None) -> None:
    """Let nobody replace what they have not seen.

    Args:
        stored: what there is, locked.
        seen: the version that whoever changes it has seen; None: they replace whatever is there.

    Raises:
        AlertSettingsChanged: it is another one now.
    """
    if seen is not None and seen != version_of(stored):
        who = stored.changed_by or "Somebody"
        raise AlertSettingsChanged(f"{who} has changed {stored.name!r} since you opened it.")


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

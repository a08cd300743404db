"""How Django says that its tables, which are in the coordinators' database, do not answer."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError
from psycopg.errors import LockNotAvailable, QueryCanceled

#: The errors of a database that does not answer: then a token cannot be looked up, or an audit
#: entry not written. The same call may succeed later.
DATABASE_AWAY = (OperationalError, InterfaceError)


def is_out_of_time(error: BaseException) -> bool:
    """Whether the database did answer: PostgreSQL has cancelled the statement, for its time was
    over."""
    return isinstance(error.__cause__, (QueryCanceled, LockNotAvailable))

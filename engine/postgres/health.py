"""Whether a database serves requests, takes writes, and cannot lose in a crash what it has said."""

from __future__ import annotations

from psycopg.errors import ReadOnlySqlTransaction, UndefinedTable

from engine.model.errors import EngineError
from engine.postgres.database import Database
from engine.postgres.migrations import is_behind


def problem_of(database: Database, kind: str, *, careful: bool) -> str | None:
    """What is wrong with a database, None when all is well.

    Args:
        kind: ``coordinator`` or ``broker``.
        careful: it must not run with settings by which a crash loses what it has acknowledged.
    """
    try:
        with database.session() as session:
            if session.all("reads_only")[0].now:
                # As a write would: connections like this one are replaced (Database).
                raise ReadOnlySqlTransaction
            if session.all("commits_wait")[0].now:
                return (
                    f"{database.name} waits with commits for a synchronous standby, which is away"
                )
            unsafe = [row.name for row in session.all("unsafe_settings")]
            behind = is_behind(session, kind)
    except EngineError as error:
        return error.message
    except UndefinedTable:
        return f"{database.name} has not been migrated: run manage.py migrate_engine."
    if behind:
        return f"{database.name} is of an earlier version: run manage.py migrate_engine."
    if unsafe and careful:
        return f"{database.name} may lose what it has acknowledged: {', '.join(unsafe)} off"
    return None

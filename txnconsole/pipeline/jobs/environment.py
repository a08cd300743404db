"""The databases that a job's environment names."""

from __future__ import annotations

from txnconsole.pipeline.broker.databases import COORDINATOR, Databases
from txnconsole.pipeline.jobs.run import WrongOptions


def databases(*, coordinator: bool = True) -> Databases:
    """Those of ``BROKER_DATABASE_URLS``, and of ``DATABASE_URL`` if wanted.

    Raises:
        WrongOptions: one is not set, or is not a connection string.
    """
    try:
        found = Databases.of({}, coordinator=coordinator)
    except ValueError as error:
        raise WrongOptions(str(error)) from error
    if not found.brokers or (coordinator and COORDINATOR not in found.urls):
        names = "DATABASE_URL and BROKER_DATABASE_URLS" if coordinator else "BROKER_DATABASE_URLS"
        raise WrongOptions(f"Set {names}: the databases are read.")
    return found

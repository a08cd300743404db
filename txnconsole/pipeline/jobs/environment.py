"""What a job is to reach: the databases that its environment names, or a server and its token."""

from __future__ import annotations

import argparse

from txnconsole.pipeline.broker.databases import COORDINATOR, Databases
from txnconsole.pipeline.jobs.run import WrongOptions
from txnconsole.pipeline.options import Connection


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


def add_server(parser: argparse.ArgumentParser) -> None:
    """Give a job the options that :func:`server` reads."""
    parser.add_argument("--url", help="the server's address; default: TXNCONSOLE_URL")
    parser.add_argument("--token", help="default, and better: TXNCONSOLE_TOKEN")


def server(options: argparse.Namespace) -> Connection:
    """The server of ``--url`` and ``--token``, else of the environment.

    Raises:
        ValueError: neither tells it.
    """
    given = {"url": options.url, "token": options.token}
    return Connection.of({key: value for key, value in given.items() if value})

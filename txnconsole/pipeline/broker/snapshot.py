"""One view of every database for a whole job, however many tasks read it."""

from __future__ import annotations

import contextlib
import json
from typing import Self

from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.databases import COORDINATOR, Databases


class Snapshot:
    """An exported snapshot for each database, alive until it is closed.

    The views of two databases are of different moments: first the brokers in order, then the
    coordinators. So whatever has ended in a broker's view is decided in the coordinators' view.

    What a snapshot shows cannot be vacuumed; close it when the job is done.
    """

    def __init__(self, databases: Databases, ids: dict[str, str], held: contextlib.ExitStack):
        self.databases = databases
        self.ids = ids
        self._held = held

    @classmethod
    def take(cls, databases: Databases) -> Self:
        """Begin to read every database.

        Raises:
            psycopg.OperationalError: one of them cannot be reached.
        """
        ids: dict[str, str] = {}
        with contextlib.ExitStack() as stack:
            for name in sorted(databases.urls, key=lambda name: (name == COORDINATOR, name)):
                connection = stack.enter_context(databases.connect(name))
                stack.enter_context(connection.transaction())
                connection.execute(statements.ONE_SNAPSHOT)
                [(ids[name],)] = connection.execute(statements.named("export")).fetchall()
            return cls(databases, ids, stack.pop_all())

    def options(self) -> dict[str, str]:
        """The options with which any of the data sources reads this view."""
        return self.databases.options() | {"snapshot": json.dumps(self.ids)}

    def close(self) -> None:
        """End the views; reads that are under way fail."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ids_of(option: str | None) -> dict[str, str]:
    """Read the option ``snapshot``.

    Raises:
        ValueError: it was not made by :meth:`Snapshot.options`.
    """
    if option is None:
        return {}
    try:
        ids = {str(name): str(snapshot) for name, snapshot in json.loads(option).items()}
    except (ValueError, AttributeError) as error:
        raise ValueError("Option snapshot is taken from Snapshot.options().") from error
    for snapshot in ids.values():
        statements.adopt(snapshot)
    return ids

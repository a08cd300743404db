"""``manage.py migrate_engine``: bring the engine's schemas up to date in all databases."""

from __future__ import annotations

from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError

from engine.model.errors import EngineError
from engine.postgres.migrations import SchemaIsNewer
from txnconsole.enginedb.wiring import engine


class Command(BaseCommand):
    help = (
        "Create or update the engine's schemas; safe to repeat, and from several processes."
        " Fails where PostgreSQL runs without fsync, full_page_writes or synchronous_commit,"
        " where a later version has been, and where a broker's address is another broker's."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012  # Django's own declaration.

    def handle(self, *_args: Any, **_options: Any) -> None:
        try:
            engine().migrate()
            wrong = [problem for problem in engine().ping().values() if problem]
        except EngineError as error:
            raise CommandError(f"{error.code}: {error.message}") from error
        except SchemaIsNewer as error:
            raise CommandError(str(error)) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise CommandError(
                "This login may not change the databases' tables: migrate with the addresses of"
                f" their owner (docs/operations.md, Logins). PostgreSQL says: {_line(error)}"
            ) from error
        except psycopg.OperationalError as error:
            raise CommandError(f"A database cannot be reached: {_line(error)}") from error
        if wrong:
            raise CommandError("; ".join(wrong))


def _line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0]

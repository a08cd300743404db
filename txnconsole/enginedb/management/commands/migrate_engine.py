"""``manage.py migrate_engine``: bring the engine's schemas up to date in all databases."""

from __future__ import annotations

from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.migrations.loader import MigrationLoader

from engine.model.errors import EngineError
from engine.postgres.migrations import SchemaIsNewer
from txnconsole.enginedb.wiring import engine


class Command(BaseCommand):
    help = (
        "Create or update the engine's schemas; safe to repeat, and from several processes."
        " Fails where PostgreSQL runs without fsync, full_page_writes or synchronous_commit,"
        " where a later version has been, where a broker's address is not its own, and where the"
        " coordinators' database is an older copy than the brokers'."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012  # Django's own declaration.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--anew",
            action="append",
            default=[],
            metavar="BROKER",
            help="a broker whose database is lost for good: it begins again with the empty one at"
            " its address; may be repeated",
        )

    def handle(self, *_args: Any, anew: list[str], **_options: Any) -> None:
        try:
            _require_no_later_tables_of_django()
            done = engine().migrate(anew=anew)
            wrong = [problem for problem in engine().ping().values() if problem]
            if not wrong:
                with engine().database.session() as session:
                    engine().continuity.require(session)
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
        for step in done:
            self.stdout.write(step)
        if wrong:
            raise CommandError("; ".join(wrong))


def _require_no_later_tables_of_django() -> None:
    """``migrate`` says nothing of migrations that it does not know.

    Raises:
        SchemaIsNewer: an app's tables are a later version's.
    """
    newest = dict(sorted(MigrationLoader(None).disk_migrations))
    with psycopg.connect(settings.DATABASE_URL, connect_timeout=5) as connection:
        if connection.execute("SELECT to_regclass('django_migrations')").fetchone() == (None,):
            return
        done = connection.execute("SELECT app, name FROM django_migrations").fetchall()
    later = [f"{app}/{name}" for app, name in done if name > newest.get(app, name)]
    if later:
        raise SchemaIsNewer(max(later))


def _line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0]

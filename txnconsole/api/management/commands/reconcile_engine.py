"""``manage.py reconcile_engine``: take over from the brokers what the coordinators have lost."""

from __future__ import annotations

from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError

from engine.model.errors import EngineError
from txnconsole.audit.recording import Actor
from txnconsole.operations import coordinators


class Command(BaseCommand):
    help = (
        "After the coordinators' database was restored from a copy that is older than the brokers',"
        " or a standby of it that lagged was promoted: takes over from the brokers how transactions"
        " have ended, and lets no id be issued again. Stop all processes first; safe to repeat."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012  # Django's own declaration.

    def handle(self, *_args: Any, **_options: Any) -> None:
        try:
            done = coordinators.reconcile(Actor("manage.py"))
        except EngineError as error:
            raise CommandError(f"{error.code}: {error.message}") from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise CommandError(
                "This login may not pass over topics' ids: run this with the addresses of the"
                " databases' owner (docs/operations.md, Logins)."
            ) from error
        self.stdout.write(
            f"Of transactions that were lost {len(done.committed)} are committed and"
            f" {len(done.aborted)} aborted; {len(done.ended)} open ones have ended as on the"
            f" brokers, and {len(done.registered)} list participants that they did not."
        )

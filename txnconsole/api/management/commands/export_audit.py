"""``manage.py export_audit``: print the audit log as JSON lines, oldest first."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError

from txnconsole.api.structs.audit import AuditEntry
from txnconsole.audit.reading import AuditFilter, in_order, numbers_of


class Command(BaseCommand):
    """Print entries, some at a time, so that memory does not grow with the log."""

    help = "Prints the audit log as JSON lines, as GET /api/v1/audit/export does."

    def add_arguments(self, parser: ArgumentParser) -> None:
        for name in ("who", "action", "object"):
            parser.add_argument(f"--{name}", help=f"only entries with this {name}")
        parser.add_argument("--after", type=_moment, help="from this time on (RFC 3339)")
        parser.add_argument("--before", type=_moment, help="before this time (RFC 3339)")

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = AuditFilter(
            **{name: options[name] for name in ("who", "action", "object", "after", "before")}
        )
        for page in in_order(wanted, numbers_of(wanted)):
            for entry in page:
                self.stdout.write(msgspec.json.encode(AuditEntry.of(entry)).decode())


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"{text!r} is not a time, e.g. 2026-01-31T12:00:00Z.") from error
    if moment.tzinfo is None:
        raise CommandError(f"{text!r} does not tell its time zone; add Z or an offset.")
    return moment

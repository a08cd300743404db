"""``manage.py verify_audit``: prove that nobody has touched the audit log."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from engine.model.errors import InvalidRequest
from txnconsole.audit.chain import verify


class Command(BaseCommand):
    """Recompute the chain of hashes; status 1 when an entry does not hold."""

    help = "Verifies the audit log and prints the number and hash of its newest entry: keep them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--after", type=int, default=0, help="go on after entry NUMBER")
        parser.add_argument("--hash", help="what that entry's hash was when it was printed")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            verified = verify(after=max(0, options["after"]), known_hash=options["hash"])
        except InvalidRequest as error:
            raise CommandError(error.message) from error
        if verified.fault is not None:
            raise CommandError(f"Entry {verified.fault.sequence} {verified.fault.problem}.")
        self.stdout.write(f"{verified.sequence} {verified.hash}")

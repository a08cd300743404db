"""``manage.py revoke_token``: end a token for good."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from txnconsole.access.models import Token
from txnconsole.access.tokens import revoke
from txnconsole.audit.recording import Actor, Change, record


class Command(BaseCommand):
    """Revoke tokens by how they begin, or all of a user's."""

    help = "Revokes the tokens that begin with HINT, or all tokens of a user."

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--hint", help="how the token begins, as `create_token` printed it")
        which.add_argument("--user", help="revoke every token of this user")

    def handle(self, *args: Any, **options: Any) -> None:
        valid = Token.objects.filter(revoked_at=None)
        if options["user"]:
            tokens = list(valid.filter(user__username=options["user"]))
        else:
            tokens = list(valid.filter(hint=options["hint"][:10]))
        if not tokens:
            raise CommandError("No such valid token.")
        with transaction.atomic():
            for token in tokens:
                revoke(token)
                record(
                    Change(Actor("manage.py"), action="token.revoke", object=f"token:{token.pk}")
                )
        self.stdout.write(f"{len(tokens)} revoked; processes notice within seconds.")

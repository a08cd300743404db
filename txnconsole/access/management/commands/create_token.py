"""``manage.py create_token``: print a new token and nothing else."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand
from django.db import transaction

from txnconsole.access.principal import ALL_TOPICS
from txnconsole.access.roles import Role
from txnconsole.access.tokens import issue
from txnconsole.audit.chain import Actor, Change, record


class Command(BaseCommand):
    """Issue a token; its user is created when missing, without a password."""

    help = "Prints a new token for a program, and nothing else. It is shown this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="owner of the token's transactions")
        parser.add_argument(
            "--role",
            required=True,
            action="append",
            type=Role,
            choices=list(Role),
            metavar="ROLE",
            help=f"one of {', '.join(Role)}; may be given more than once",
        )
        parser.add_argument(
            "--topics",
            action="append",
            metavar="PATTERN",
            help="tenant/namespace/topic with * and ?; may be given more than once (default: all)",
        )
        parser.add_argument(
            "--days", type=int, help="days until the token expires (default: never)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        days: int | None = options["days"]
        with transaction.atomic():
            user, created = User.objects.get_or_create(username=options["user"])
            if created:
                user.set_unusable_password()
                user.save(update_fields=["password"])
            token, secret = issue(
                user,
                options["role"],
                topics=options["topics"] or ALL_TOPICS,
                lifetime=None if days is None else timedelta(days=days),
            )
            record(
                Change(
                    Actor("manage.py"),
                    action="token.create",
                    object=f"token:{token.pk}",
                    after={"user": user.username, "roles": token.roles, "topics": token.topics},
                )
            )
        self.stdout.write(secret)

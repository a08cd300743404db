"""``manage.py create_token``: print a new token and nothing else."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand
from django.db import transaction

from engine.model.errors import InvalidRequest
from txnconsole.access.principal import ALL_TOPICS
from txnconsole.access.roles import Role
from txnconsole.access.tokens import issue
from txnconsole.access.users import user_name
from txnconsole.audit.recording import Actor, Change, record

_MOST_DAYS = 100 * 365


class Command(BaseCommand):
    """Issue a token; its user is created when missing, without a password."""

    help = "Prints a new token for a program, and nothing else. It is shown this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--user", required=True, type=_user, help="owner of the token's transactions"
        )
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
            "--days", type=_lifetime, help="days until the token expires (default: never)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            user, created = User.objects.get_or_create(username=options["user"])
            if created:
                user.set_unusable_password()
                user.save(update_fields=["password"])
            token, secret = issue(
                user,
                options["role"],
                topics=options["topics"] or ALL_TOPICS,
                lifetime=options["days"],
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


def _user(text: str) -> str:
    try:
        return user_name(text)
    except InvalidRequest as error:
        raise ArgumentTypeError(error.message) from error


def _lifetime(text: str) -> timedelta:
    if not text.isdecimal() or not 0 < int(text) <= _MOST_DAYS:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST_DAYS}.")
    return timedelta(days=int(text))

"""Brings databases, static files and the first login up to date; one process, before the others.

Run as ``python -m txnconsole.local.prepare FILE``; writes the login and the tokens to FILE.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import traceback
from pathlib import Path

import django

from txnconsole.local.data_directory import write_private

ADMIN = "admin"
#: Who gets a token: the user, and this run's own programs. The programs also make their topics.
_TOKENS = (ADMIN, "demo", "pipeline")


def main(file: Path) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "txnconsole.settings")
    django.setup()
    _migrate()
    login = json.loads(file.read_text()) if file.exists() else {}
    login.setdefault("user", ADMIN)
    login.setdefault("password", secrets.token_urlsafe(9))
    write_private(file, json.dumps(login))  # Before the database knows it: never lost.
    login["password_changed"] = not _has_password(login["password"])
    login["tokens"] = _tokens(login.get("tokens", {}))
    write_private(file, json.dumps(login, indent=2))


def _migrate() -> None:
    from django.core.management import call_command  # noqa: PLC0415  # After django.setup().

    call_command("migrate", verbosity=0, interactive=False)
    call_command("migrate_engine")
    call_command("collectstatic", verbosity=0, interactive=False)


def _has_password(password: str) -> bool:
    """Whether the administrator, made when missing, still has this first password."""
    from django.contrib.auth.models import User  # noqa: PLC0415

    user, created = User.objects.get_or_create(
        username=ADMIN, defaults={"is_superuser": True, "is_staff": True}
    )
    if created or not user.password:
        user.set_password(password)
        user.save(update_fields=["password"])
    return user.check_password(password)


def _tokens(known: dict[str, str]) -> dict[str, str]:
    """A token that works for each owner: the known one, or a new one."""
    from django.contrib.auth.models import User  # noqa: PLC0415

    from txnconsole.access.roles import Role  # noqa: PLC0415
    from txnconsole.access.tokens import issue, recognise  # noqa: PLC0415

    tokens = {}
    for owner in _TOKENS:
        secret = known.get(owner, "")
        if not secret or recognise(secret) is None:
            user, _ = User.objects.get_or_create(username=owner)
            _, secret = issue(user, [Role.ADMIN])
        tokens[owner] = secret
    return tokens


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except Exception as failure:
        traceback.print_exc()
        # The supervisor shows the last line.
        print(f"{type(failure).__name__}: {str(failure).partition(chr(10))[0]}", file=sys.stderr)
        sys.exit(1)

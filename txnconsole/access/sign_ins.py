"""How often somebody may try to sign in: a password is not guessed by trying.

Attempts are counted in the database, so that they hold over all web processes and restarts: by
name and address together, so that nobody locks another out, and by address, for who tries many
names. An attempt counts before the password is looked at, and not any more when that was right.
Neither names nor addresses are kept, only what they hash to: a password may be typed as a name.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path
from typing import cast

import structlog
from django.db import connection
from django.db.models import F

from txnconsole.access.models import SignInAttempts

WINDOW = timedelta(minutes=5)
#: Attempts within a window: for one name, and for all names, from one address.
FOR_ONE_NAME, FROM_ONE_ADDRESS = 10, 100

_COUNT = (Path(__file__).parent / "sql" / "count_sign_in.sql").read_text()
_log = structlog.get_logger(__name__)


def begin(name: str, address: str | None) -> timedelta | None:
    """Count an attempt; for how long there may be no more, None when this one may be made."""
    for key, most in ((_key(address), FROM_ONE_ADDRESS), (_key(address, name), FOR_ONE_NAME)):
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, {"key": key, "window": WINDOW.total_seconds()})
            attempts, left = cast("tuple[int, timedelta]", cursor.fetchone())
        if attempts > most:
            _log.warning("too many attempts to sign in", address=address, attempts=attempts)
            return max(timedelta(seconds=1), left)
    return None


def succeeded(name: str, address: str | None) -> None:
    """The attempt had the right password: it was no guess, nor were those before it."""
    SignInAttempts.objects.filter(key=_key(address, name)).delete()
    SignInAttempts.objects.filter(key=_key(address)).update(attempts=F("attempts") - 1)


def _key(address: str | None, *name: str) -> str:
    return hashlib.sha256("\n".join([address or "", *name]).encode()).hexdigest()

"""How often somebody may try to sign in, so that passwords cannot be guessed by trying.

Attempts are counted in the database, over all web processes and restarts: by name and sender
together, so that nobody can lock out another user, and by sender, against trying many names. An
attempt counts before the password is checked, and is taken back when the password was right. Only
hashes of names and senders are stored, because somebody may type a password as a name.
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
#: The most attempts in a window from one sender: for one name, and for all names.
FOR_ONE_NAME, FROM_ONE_SENDER = 10, 100

_COUNT = (Path(__file__).parent / "sql" / "count_sign_in.sql").read_text()
_log = structlog.get_logger(__name__)


def begin(name: str, sender: str) -> timedelta | None:
    """Count an attempt of a sender (:func:`txnconsole.access.addresses.sender_of`).

    Returns:
        For how long there must be no further attempt; None when this one may be made.
    """
    for key, most in ((_key(sender), FROM_ONE_SENDER), (_key(sender, name), FOR_ONE_NAME)):
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, {"key": key, "window": WINDOW.total_seconds()})
            attempts, left = cast("tuple[int, timedelta]", cursor.fetchone())
        if attempts > most:
            _log.warning("too many attempts to sign in", sender=sender, attempts=attempts)
            return max(timedelta(seconds=1), left)
    return None


def succeeded(name: str, sender: str) -> None:
    """This attempt had the right password, so it was no guess, nor were those before it: forget
    those for this name and sender, and this one for the sender, unless its window is over."""
    SignInAttempts.objects.filter(key=_key(sender, name)).delete()
    counted = SignInAttempts.objects.filter(key=_key(sender), attempts__gt=0)
    counted.update(attempts=F("attempts") - 1)


def _key(sender: str, *name: str) -> str:
    return hashlib.sha256("\n".join([sender, *name]).encode()).hexdigest()

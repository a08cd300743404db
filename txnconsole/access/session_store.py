"""Where sessions are kept: in Django's table, as Django keeps them, but under one key for life."""

from __future__ import annotations

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):  # Of the name that Django's own has: it salts signatures.
    """A session has a new key once somebody signs in, and no other after that.

    Django gives it another one when it meets a session of an earlier ``SECRET_KEY``. A page asks
    several things at once: all but the first would name a session that is not there any more.
    """

    def cycle_key(self) -> None:
        if SESSION_KEY not in self:
            super().cycle_key()

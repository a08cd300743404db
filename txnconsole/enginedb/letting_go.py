"""Giving Django's connection back in the middle of a request."""

from __future__ import annotations

from django.db import connection


def let_go() -> None:
    """Give the connection back to the pool before something that takes long and needs none; what
    asks next takes one again. Within an SQL transaction it stays."""
    if not connection.in_atomic_block:
        connection.close()

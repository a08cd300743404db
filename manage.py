#!/usr/bin/env python
"""Django's command line for txnconsole."""

from __future__ import annotations

import os
import sys

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import OperationalError
from psycopg_pool import PoolTimeout


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "txnconsole.settings")
    try:
        execute_from_command_line(sys.argv)
    except BrokenPipeError:  # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ImproperlyConfigured as error:  # Each names its setting.
        sys.exit(str(error))
    except OperationalError as error:
        if not isinstance(error.__cause__, PoolTimeout):
            raise
        sys.exit(_why_away() or str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _why_away() -> str | None:
    """Why the coordinators' database cannot be reached, which its pool of connections does not
    tell; None when it can."""
    try:
        psycopg.connect(settings.DATABASE_URL, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return (
            f"The coordinators' database cannot be reached: {str(error).partition(chr(10))[0]}."
            " DATABASE_URL names it, or the run whose data directory is in TXNCONSOLE_DATA."
        )
    return None


if __name__ == "__main__":
    main()

"""Settings come from the environment, then from the product that runs on this data directory.

``make run`` and ``make serve`` leave the addresses and the secret key of their servers in
``$TXNCONSOLE_DATA/environment.json`` (readable by the owner only), so that ``manage.py`` in
another terminal reaches the same servers without any setting.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from txnconsole import connection_strings


class Process:
    """What this process is; said before the settings are read."""

    #: Whether it answers requests, and so keeps their time limit (asgi.py).
    answers_requests = False
    #: Whether it was told to end (asgi.py): what waits on purpose answers then, streams are over.
    is_ending = False


FILE_NAME = "environment.json"
#: What programs are not told that reach the product by its address and a token.
SERVER_ONLY = frozenset(
    {
        *("DATABASE_URL", "BROKER_DATABASE_URLS", "REDIS_URL"),
        *("SECRET_KEY", "SECRET_KEY_FALLBACKS"),
        *("TXNCONSOLE_READER_DATABASE_URL", "TXNCONSOLE_READER_BROKER_DATABASE_URLS"),
        *("EMAIL_HOST_USER", "EMAIL_HOST_PASSWORD", "OTEL_EXPORTER_OTLP_HEADERS"),
    }
)
#: What only jobs are told that read offloaded files, which may stand in an object store.
STORES_KEYS = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})
#: Of addresses of a Redis-compatible server. The redis package knows them too, but it would take
#: OpenTelemetry along into each process that reads settings.
_QUEUES = frozenset({"redis", "rediss", "unix"})
_INTERVAL = re.compile(r"([a-z_]+)=([1-9]\d{0,8})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def data_directory() -> Path:
    """Where everything that must outlive a run is kept: ``$TXNCONSOLE_DATA``, else ``.data``."""
    default = Path(__file__).resolve().parent.parent / ".data"
    return Path(os.environ.get("TXNCONSOLE_DATA") or default).absolute()


def left_by_runner(directory: Path) -> dict[str, str]:
    """The settings that a local run left in its data directory; none when there was no run."""
    file = directory / FILE_NAME
    try:
        return {str(key): str(value) for key, value in json.loads(file.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ImproperlyConfigured(f"{file} cannot be read: {error}") from error


class Environment:
    """Typed look-ups that name the variable when its value is wrong.

    Raises:
        ImproperlyConfigured: from every look-up whose value does not parse.
    """

    def __init__(self, values: Mapping[str, str], fallback: Mapping[str, str]) -> None:
        self._values = values
        self._fallback = fallback

    def text(self, name: str, default: str) -> str:
        return self._values.get(name) or self._fallback.get(name) or default

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self.text(name, "1" if default else "0").lower()
        if value not in {"0", "1", "true", "false", "yes", "no"}:
            raise ImproperlyConfigured(f"{name} must be 1 or 0, not {value!r}")
        return value in {"1", "true", "yes"}

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        value = self.text(name, str(default))
        if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
            raise ImproperlyConfigured(f"{name} must be a number from {low} to {high}: {value!r}")
        return int(value)

    def items(self, name: str, default: str) -> list[str]:
        return [item.strip() for item in self.text(name, default).split(",") if item.strip()]

    def choice(self, name: str, default: str, *, among: Collection[str]) -> str:
        """One of ``among``, however its letters are written."""
        value = self.text(name, default)
        if value.upper() not in among:
            raise ImproperlyConfigured(f"{name} must be one of {', '.join(among)}, not {value!r}")
        return value.upper()

    def queue(self, name: str, default: str) -> str:
        """The address of a Redis-compatible server; it is not repeated, it may hold a password."""
        value = self.text(name, default)
        try:
            parts = urlsplit(value)
            is_known = parts.scheme in _QUEUES and parts.port != 0
        except ValueError:  # The port is no number.
            is_known = False
        if not is_known:
            raise ImproperlyConfigured(
                f"{name} must be like redis://host:6379/0, rediss://… or unix:///path"
            )
        return value

    def database(self, name: str, default: str) -> str:
        """A connection string of PostgreSQL; it is not repeated, it may hold a password."""
        value = self.text(name, default)
        django_database(name, value)
        return value

    def databases(self, name: str, default: str) -> list[str]:
        """Connection strings, separated by commas."""
        found = connection_strings.split(self.text(name, default))
        for url in found:
            django_database(name, url)
        return found

    def intervals(self, name: str, default: str) -> dict[str, timedelta]:
        """Names with how often they come round: ``audit=24h,metrics=5m`` (s, m, h, d)."""
        found = {}
        for item in self.items(name, default):
            match = _INTERVAL.fullmatch(item)
            if match is None:
                raise ImproperlyConfigured(f"{name} is like audit=24h,metrics=5m, not {item!r}")
            found[match[1]] = timedelta(seconds=int(match[2]) * _SECONDS[match[3]])
        return found


def django_database(name: str, url: str) -> dict[str, Any]:
    """Django's settings for a libpq connection string.

    Raises:
        ImproperlyConfigured: the string does not parse; it is not repeated, it holds a password.
    """
    try:
        parts = {key: value for key, value in conninfo_to_dict(url).items() if value is not None}
    except ProgrammingError:  # Its text may quote a part of a password.
        raise ImproperlyConfigured(f"{name} is not a PostgreSQL connection string") from None
    return {
        "ENGINE": "txnconsole.enginedb.postgresql",
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "OPTIONS": parts,
    }

"""The product's settings, with the bare views beside its addresses."""

from __future__ import annotations

from txnconsole.settings import *  # noqa: F403  # A settings module is its names.

ROOT_URLCONF = "benchmarks.http.urls"

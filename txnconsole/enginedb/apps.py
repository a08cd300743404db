"""Registers the package with Django, for its management command."""

from __future__ import annotations

from django.apps import AppConfig


class EngineDatabaseConfig(AppConfig):
    name = "txnconsole.enginedb"

"""The Django app of the REST API."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "txnconsole.api"
    label = "api"

    def ready(self) -> None:
        """Let drf-spectacular know how to describe msgspec structs."""
        import_module("txnconsole.api.schema")

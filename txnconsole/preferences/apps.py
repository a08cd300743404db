"""The Django app of preferences."""

from __future__ import annotations

from django.apps import AppConfig


class PreferencesConfig(AppConfig):
    name = "txnconsole.preferences"
    label = "preferences"
    default_auto_field = "django.db.models.BigAutoField"

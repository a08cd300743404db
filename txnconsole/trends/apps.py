"""The Django app of samples."""

from __future__ import annotations

from django.apps import AppConfig


class TrendsConfig(AppConfig):
    name = "txnconsole.trends"
    label = "trends"
    default_auto_field = "django.db.models.BigAutoField"

"""The Django app of refused acknowledgements."""

from __future__ import annotations

from django.apps import AppConfig


class RefusalsConfig(AppConfig):
    name = "txnconsole.refusals"
    label = "refusals"
    verbose_name = "Refused acknowledgements"
    default_auto_field = "django.db.models.BigAutoField"

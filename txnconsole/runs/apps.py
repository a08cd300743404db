"""The Django app of pipeline runs."""

from __future__ import annotations

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "txnconsole.runs"
    label = "runs"
    verbose_name = "Pipeline runs"
    default_auto_field = "django.db.models.BigAutoField"

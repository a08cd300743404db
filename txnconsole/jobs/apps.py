"""The Django app of background jobs."""

from __future__ import annotations

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "txnconsole.jobs"
    label = "jobs"
    verbose_name = "Background jobs"
    default_auto_field = "django.db.models.BigAutoField"

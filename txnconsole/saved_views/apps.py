"""The Django app of saved views."""

from __future__ import annotations

from django.apps import AppConfig


class SavedViewsConfig(AppConfig):
    name = "txnconsole.saved_views"
    label = "saved_views"
    verbose_name = "Saved views"
    default_auto_field = "django.db.models.BigAutoField"

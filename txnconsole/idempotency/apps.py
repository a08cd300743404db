"""The Django app of kept answers."""

from __future__ import annotations

from django.apps import AppConfig


class IdempotencyConfig(AppConfig):
    name = "txnconsole.idempotency"
    label = "idempotency"
    default_auto_field = "django.db.models.BigAutoField"

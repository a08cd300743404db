"""The Django app of the audit log."""

from __future__ import annotations

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "txnconsole.audit"
    label = "audit"
    verbose_name = "Audit log"

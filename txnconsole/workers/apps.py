"""Registers the package with Django, so that Celery finds its tasks."""

from __future__ import annotations

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "txnconsole.workers"

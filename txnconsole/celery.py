"""The Celery application; its settings are those of Django that start with ``CELERY_``."""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "txnconsole.settings")

app = Celery("txnconsole")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["txnconsole.workers"])
# What listens to a worker's signals.
app.autodiscover_tasks(["txnconsole.workers"], related_name="observing")


@setup_logging.connect
def keep_logging(**_: object) -> None:
    """Leave logging as Django's settings have set it up: Celery would show warnings alone."""

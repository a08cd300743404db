"""The Celery application; its settings are those of Django that start with ``CELERY_``."""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import setup_logging
from kombu.transport import redis, virtual

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "txnconsole.settings")

app = Celery("txnconsole")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["txnconsole.workers"])
# What listens to a worker's signals.
app.autodiscover_tasks(["txnconsole.workers"], related_name="observing")
app.Task.Request = "txnconsole.workers.killed:Watched"


@setup_logging.connect
def keep_logging(**_: object) -> None:
    """Leave logging as Django's settings have set it up: Celery would show warnings alone."""


class Places(redis.QoS):
    """The messages that a worker has in hand: no more than it has places for.

    One whose acknowledgement did not reach the queue, which did not answer, gives up its place as
    well; it comes again when it has been invisible for long enough. kombu 5.7 counts it for ever: a
    worker took nothing any more, in silence, once each of its places had lost one.
    """

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise


redis.Channel.QoS = Places

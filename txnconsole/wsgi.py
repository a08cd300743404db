"""The WSGI application: the product without its live channel (events need ASGI)."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

from txnconsole.environment import Process

Process.answers_requests = True
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "txnconsole.settings")

application = get_wsgi_application()

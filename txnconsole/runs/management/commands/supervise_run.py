"""Watches one pipeline run; workers start it (txnconsole.runs.launching)."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from txnconsole.runs.supervising import Supervisor


class Command(BaseCommand):
    help = "Watch a pipeline run to its end. Started by a worker, not by hand."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("lease", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        supervisor = Supervisor(options["run"], options["lease"])
        signal.signal(signal.SIGTERM, lambda *_: supervisor.stop())
        supervisor.run()

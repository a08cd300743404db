"""Starts a pipeline run and, if asked, waits for its end."""

from __future__ import annotations

import getpass
import json
import sys
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from engine.model.errors import EngineError
from txnconsole.audit.recording import Actor, Change, recorded_atomically
from txnconsole.jobs.work import UNFINISHED, JobState
from txnconsole.runs import lifecycle
from txnconsole.runs.kinds import KINDS
from txnconsole.runs.models import PipelineRun, RunOrigin

_POLL_SECONDS = 0.5


class Command(BaseCommand):
    help = (
        "Start a pipeline run; workers carry it out. With --wait: show progress, then the result."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=sorted(KINDS))
        parser.add_argument(
            "parameters", nargs="*", metavar="name=value", help="what the job is asked for"
        )
        parser.add_argument("--wait", action="store_true", help="until the run has ended")

    def handle(self, *args: Any, **options: Any) -> None:
        parameters = dict(_pair(text) for text in options["parameters"])
        actor = Actor(f"command:{getpass.getuser()}")
        try:
            change = Change(actor, "run.start", f"job:{options['kind']}")
            with recorded_atomically(change) as recording:
                run = lifecycle.start(
                    options["kind"], parameters, actor=actor, origin=RunOrigin.COMMAND
                )
                recording.after = {"run": run.pk, "parameters": run.parameters}
        except EngineError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"run {run.pk}")
        if options["wait"]:
            self._wait(run)

    def _wait(self, run: PipelineRun) -> None:
        shown = ""
        while (now := lifecycle.find(run.pk)).state in UNFINISHED:
            if now.stage != shown:
                shown = now.stage
                self.stderr.write(f"{now.state}: {shown} ({now.stage_done}/{now.stage_total})")
            time.sleep(_POLL_SECONDS)
        self.stdout.write(json.dumps(now.result, indent=2))
        if now.state != JobState.DONE:
            raise CommandError(f"run {run.pk} is {now.state}: {now.error}")
        if now.found:
            sys.exit(3)


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise CommandError(f"{text} is not of the form name=value.")
    return name, value

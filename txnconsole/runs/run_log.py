"""What a run's job has written to standard error: a file on the machine of its supervisor."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

from txnconsole.runs.models import PipelineRun

_TAIL_BYTES = 8_000


def place(run_id: int) -> Path:
    """Where it stands, or will."""
    return Path(settings.DATA_DIR) / "log" / "runs" / f"{run_id}.log"


def drop_forgotten() -> None:
    """Remove those on this machine whose runs have been forgotten."""
    logs = {int(log.stem): log for log in place(0).parent.glob("[0-9]*.log")}
    known = PipelineRun.objects.filter(pk__in=logs).values_list("pk", flat=True)
    for number in logs.keys() - set(known):
        logs[number].unlink(missing_ok=True)


def tail(run_id: int) -> str:
    """Its end; empty when it is not on this machine."""
    try:
        with place(run_id).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return log.read(_TAIL_BYTES).decode(errors="replace").replace("\0", "")
    except OSError:
        return ""

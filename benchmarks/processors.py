"""What processes spend, by Linux's ``/proc``."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """The processor time of this process and all that it has started, those included that have
    ended and were waited for."""
    family = [os.getpid()]
    for pid in family:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            family += map(int, _text(children).split())
    stats = (_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() for pid in family)
    return sum(sum(map(int, stat[11:15])) for stat in stats) / _TICKS


def _text(path: Path) -> str:
    """Empty when the process has ended in the meantime."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""

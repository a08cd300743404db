"""What came of one item."""

from __future__ import annotations

from dataclasses import dataclass

from txnconsole.audit.recording import Change
from txnconsole.jobs.models import ItemState


@dataclass(frozen=True, slots=True)
class ItemResult:
    """``result`` is a stable word of the job's kind, ``detail`` is for people; ``change`` goes
    into the audit log with it."""

    state: ItemState
    result: str
    detail: str = ""
    change: Change | None = None

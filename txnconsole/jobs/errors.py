"""What can go wrong with jobs, each with the stable code of the REST contract."""

from __future__ import annotations

from engine.model.errors import EngineError, NotFound


class CountChanged(EngineError):
    """The filter matches another number than expected; ``count`` tells how many."""

    code = "CountChanged"


class JobNotFound(NotFound):
    """No such job."""

    code = "JobNotFound"


class InvalidJobState(EngineError):
    """The job's state does not allow this; ``current_state`` tells it."""

    code = "InvalidJobState"

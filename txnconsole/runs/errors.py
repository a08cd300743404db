"""What can go wrong with pipeline runs, each with the stable code of the REST contract."""

from __future__ import annotations

from engine.model.errors import EngineError, NotFound


class RunNotFound(NotFound):
    """No such pipeline run."""

    code = "RunNotFound"


class RunNotPermitted(EngineError):
    """The run needs a right that its starter lacks."""

    code = "PermissionDenied"


class InvalidRunState(EngineError):
    """The run's state does not allow this; ``current_state`` tells it."""

    code = "InvalidRunState"

"""What can go wrong with alerts, each with the stable code of the REST contract."""

from __future__ import annotations

from engine.model.errors import EngineError, InvalidRequest, NotFound


class AlertNotFound(NotFound):
    """No such alert."""

    code = "AlertNotFound"


class AlertRuleNotFound(NotFound):
    """No such rule."""

    code = "AlertRuleNotFound"


class AlertSilenceNotFound(NotFound):
    """No such silence."""

    code = "AlertSilenceNotFound"


class AlertChannelNotFound(NotFound):
    """No such channel."""

    code = "AlertChannelNotFound"


class AlertMessageNotFound(NotFound):
    """No such message of the channel."""

    code = "AlertMessageNotFound"


class AlertConflict(EngineError):
    """The name is taken, or the state does not allow this."""

    code = "AlertConflict"


class AlertSettingsChanged(AlertConflict):
    """Somebody else has changed the rule or channel since it was seen."""


class DeliveryFailed(Exception):
    """A message could not be sent. The text says why and holds no secret: it is shown."""


def invalid(field: str, problem: str) -> InvalidRequest:
    """The error for one field with a value that it cannot have."""
    return InvalidRequest(f"{field}: {problem}.", field={field: problem})

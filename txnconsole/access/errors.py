"""What can go wrong with users, tokens and masking rules, each with the stable code of the REST
contract."""

from __future__ import annotations

from engine.model.errors import EngineError, NotFound


class UserNotFound(NotFound):
    """There is no user of that name."""

    code = "UserNotFound"


class TokenNotFound(NotFound):
    """There is no token of that number."""

    code = "TokenNotFound"


class MaskingRuleNotFound(NotFound):
    """There is no masking rule of that number."""

    code = "MaskingRuleNotFound"


class NotYours(EngineError):
    """Nobody may do this to themselves, or give away rights that they do not have."""

    code = "PermissionDenied"

"""Calls that are made once more when what they went by has changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from engine.model.errors import EngineError

_T = TypeVar("_T")
_P = ParamSpec("_P")


def retry_once_on(
    outdated: type[EngineError],
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Decorate a call: when it raises ``outdated``, it is made once more from its start. That error
    means that what the call went by may be outdated: what this process remembered, which has been
    forgotten by then, or what it has just read."""

    def decorate(call: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(call)
        def repeated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return call(*args, **kwargs)
            except outdated:
                return call(*args, **kwargs)

        return repeated

    return decorate

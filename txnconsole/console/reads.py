"""Reading the engine for a page, where one broker's failure must not fail the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from engine.model.errors import EngineError

T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Region(Generic[T]):
    """One region of a page: its value, or why it could not be read."""

    value: T | None = None
    error: EngineError | None = None


def region(read: Callable[[], T]) -> Region[T]:
    """Read a region; an engine that refuses or cannot be reached becomes the region's error."""
    try:
        return Region(value=read())
    except EngineError as error:
        _log.warning("console.region_failed", code=error.code, error=error.message)
        return Region(error=error)

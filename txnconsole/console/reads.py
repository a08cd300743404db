"""Reading the engine for a page, where one broker's failure must not fail the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from engine.model.errors import EngineError, InvalidRequest

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


def list_region(read: Callable[[], T]) -> Region[T]:
    """As :func:`region`, for the list that a page is about. A request that is itself wrong, such as
    by a cursor that is none of this list, is the whole page's error.

    Raises:
        InvalidRequest: the engine does not take what was asked for.
    """
    found = region(read)
    if isinstance(found.error, InvalidRequest):
        raise found.error
    return found


def apart_from(reason: str, name: str) -> str:
    """Why a database cannot be asked, where it has been named and that it cannot already."""
    return reason.removeprefix(f"{name} cannot serve this now: ")

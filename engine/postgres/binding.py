"""A context variable that has a value within a block."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Binding(AbstractContextManager[None], Generic[_T]):
    """Give a context variable a value within the block, and then what it had before.

    A class, because it is put around every request and every append, and a context manager made of
    a generator costs several times as much.
    """

    def __init__(self, variable: ContextVar[_T], value: _T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._variable.reset(self._token)

"""One call of the REST contract as a value: what is sent, and how the answer is read. No IO."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from math import inf, isfinite
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from txnconsole.client.answers import Nothing
from txnconsole.client.errors import TxnConsoleError, UnexpectedAnswer

T = TypeVar("T")

JSON = "application/json"
MSGPACK = "application/msgpack"

#: How answers are read, by media type and type. A type is made ready once, under the lock: one that
#: msgspec (0.22) is making ready in one thread ends the whole process when another reads it.
_readers: dict[tuple[str, type[Any]], Callable[[bytes], Any]] = {}
_making_ready = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request and the type of its answer.

    ``media_type`` is that of the body and the answer. ``idempotent``: carrying it out twice has the
    effect of once, so a call without an answer may be repeated. ``wait_ms``: how long the server
    may wait on purpose before it answers. ``patience``: the seconds after which the caller does not
    want the answer any more. ``undo`` makes, of the answer, the call that undoes this one: it is
    made when the answer comes to nobody, because whoever waited for it was cancelled or
    interrupted; such a call has an ``idempotency_key``.
    """

    method: str
    path: str
    answer: type[T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    media_type: str = JSON
    idempotent: bool = True
    wait_ms: int = 0
    patience: float = inf
    idempotency_key: str | None = None
    undo: Callable[[T], Call[Any]] | None = None

    def headers(self) -> dict[str, str]:
        headers = {"Accept": f"{self.media_type}, application/problem+json"}
        if self.body is not None:
            headers["Content-Type"] = self.media_type
        if self.idempotency_key is not None:
            headers["Idempotency-Key"] = self.idempotency_key
        return headers

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> T:
        """Turn an HTTP answer into a value.

        Raises:
            TxnConsoleError: the error that the answer's problem document names.
            UnexpectedAnswer: the body is not one that the contract describes.
        """
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not 200 <= status < 300:
            raise self._error(status, headers, body)
        if issubclass(self.answer, Nothing) or (issubclass(self.answer, dict) and not body):
            return self.answer()
        try:
            return _decode(body, media_type, self.answer)
        except msgspec.MsgspecError as error:
            raise UnexpectedAnswer(
                f"{self.method} {self.path} was answered with {media_type or 'no media type'}"
                f" that cannot be read: {error}",
                status=status,
            ) from error

    def _error(self, status: int, headers: Mapping[str, str], body: bytes) -> TxnConsoleError:
        retry_after = _retry_after(headers)
        try:
            problem = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError:
            problem = {}
        if not isinstance(problem.get("code"), str):
            elsewhere = headers.get("location")
            return UnexpectedAnswer(
                f"{self.method} {self.path} was answered with HTTP {status}"
                f"{f', which leads to {elsewhere[:200]!r},' if elsewhere else ''} and no problem"
                " document: by a proxy, or by another server.",
                status=status,
                retry_after=retry_after,
            )
        return TxnConsoleError.of_problem(problem, status=status, retry_after=retry_after)


def encode(value: object, media_type: str) -> bytes:
    """Encode a body in one of the two media types of the contract.

    Raises:
        ValueError: a member is NaN or infinite. JSON would have null in its place, which means that
            it was not given.
    """
    if media_type == JSON and isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(each, float) and not isfinite(each):
                raise ValueError(f"{name} is to be a number, not {each}.")
    return msgspec.msgpack.encode(value) if media_type == MSGPACK else msgspec.json.encode(value)


def segments(*parts: str | int) -> str:
    """Build a path from names.

    Raises:
        ValueError: a name is empty, or would change the path: ``subscriptions/..`` is the topic.
    """
    for part in map(str, parts):
        if part in {"", ".", ".."} or "/" in part:
            raise ValueError(f"{part!r} cannot be a name.")
    return "/".join(quote(str(part), safe=":") for part in parts)


def _decode(body: bytes, media_type: str, kind: type[T]) -> T:
    read = _readers.get((media_type, kind)) or _reader(media_type, kind)
    answer: T = read(body)
    return answer


def _reader(media_type: str, kind: type[T]) -> Callable[[bytes], T]:
    made: Callable[[type[T]], Any]
    if media_type == MSGPACK:
        made = msgspec.msgpack.Decoder
    elif media_type == JSON:
        made = msgspec.json.Decoder
    else:
        raise msgspec.DecodeError("It is neither JSON nor MessagePack.")
    with _making_ready:
        return _readers.setdefault((media_type, kind), made(kind).decode)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds. Its other form is a date (RFC 9110, 10.2.3), which counts from that
    of the answer itself: the clocks of this machine and the server's may differ."""
    text = headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until, now = (parsedate_to_datetime(headers[name]) for name in ("retry-after", "date"))
        return max(0.0, (until - now).total_seconds())
    except (KeyError, TypeError, ValueError):  # TypeError: one of the two has no zone.
        return None

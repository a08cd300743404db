"""Bodies and query strings into typed structs, strictly.

Refused with ``InvalidRequest`` and the field's path: a field that the struct does not know, a
missing one, another type, a number out of range, a lone surrogate, NaN, a JSON member that occurs
twice (parsers disagree on which one counts), nesting without end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, get_origin

import msgspec
from django.http import HttpRequest, QueryDict
from django.http.request import RawPostDataException
from rest_framework.exceptions import UnsupportedMediaType

from engine.model.errors import InvalidRequest, PayloadTooLarge
from txnconsole.api.field_errors import errors_of

JSON = "application/json"
MSGPACK = "application/msgpack"

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=msgspec.Struct)

_ANYTHING = msgspec.json.Decoder()
_WRITTEN = msgspec.json.Encoder()
#: The one way to write a quotation mark in JSON without writing one.
_MARK_IN_DIGITS = b"\\u0022"
#: Of years in which a zone, or the hours before, lead to no other that Python does not know.
_TIME = re.compile(r"(?!000[01]|9999)\d{4}-\d\d-\d\d")
_OFFSET = re.compile(r"[0-9]+")
_NO_QUERY = QueryDict()
_YEARS = range(2, 9999)
_NO_TIME = "is not a time as RFC 3339 writes it, of the years 2 to 9998"


class BodyDecoder(Generic[T]):
    """Reads the bodies of one call.

    ``packed`` is the struct of a MessagePack body; without one the call takes JSON only.
    """

    def __init__(self, kind: type[T], *, packed: type[Any] | None, limit: int) -> None:
        self._kind = kind
        self._json = msgspec.json.Decoder(kind)
        self._msgpack = None if packed is None else msgspec.msgpack.Decoder(packed)
        self._limit = limit

    def decode(self, request: HttpRequest) -> T:
        """Read the request's body; an absent one counts as ``{}``.

        Raises:
            InvalidRequest: the body is malformed.
            PayloadTooLarge: it is above the call's limit.
            UnsupportedMediaType: it is neither of the media types that the call takes.
        """
        body = self._read(request)
        media_type = request.content_type or ""
        if request.META.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() != "identity":
            raise UnsupportedMediaType(media_type, "Send the body without a Content-Encoding.")
        if not body:
            body, media_type = b"{}", JSON
        if media_type == MSGPACK and self._msgpack is not None:
            decode, plain = self._msgpack.decode, msgspec.msgpack.decode
            packed: T = _checked(lambda: decode(body), self._msgpack.type, lambda: plain(body))
            return packed
        if media_type != JSON:
            raise self._other_form(media_type)
        decoded = _checked(
            lambda: self._json.decode(body), self._kind, lambda: _ANYTHING.decode(body)
        )
        _readable(lambda: _refuse_duplicates(body, decoded))
        return decoded

    def _read(self, request: HttpRequest) -> bytes:
        declared = request.META.get("CONTENT_LENGTH") or "0"
        if declared.isdigit() and int(declared) > self._limit:
            raise self._too_large()
        try:
            body = request.body
        except RawPostDataException as error:  # A form, in which a CSRF token was looked for.
            raise self._other_form(request.content_type or "") from error
        if len(body) > self._limit:
            raise self._too_large()
        return body

    def _other_form(self, media_type: str) -> UnsupportedMediaType:
        takes = JSON if self._msgpack is None else f"{JSON} or {MSGPACK}"
        given = media_type or "without a Content-Type"
        return UnsupportedMediaType(media_type, f"Send the body as {takes}, not {given}.")

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"The body of this call takes at most {self._limit} bytes.", limit_bytes=self._limit
        )


class QueryDecoder(Generic[S]):
    """Reads the query strings of one call; only list fields may be repeated."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        self._lists = frozenset(name for name in types if get_origin(types[name]) is list)
        self._times = frozenset(name for name in types if "datetime" in str(types[name]))
        self._times_or_offsets = frozenset(
            name for name in self._times if "int" in str(types[name])
        )
        #: Of a call that has no parameters; the same for all, since there is nothing in it.
        self._nothing = None if types else kind()

    def decode(self, request: HttpRequest) -> S:
        """Read the request's query string.

        Raises:
            InvalidRequest: a parameter is unknown, missing, malformed or given twice.
        """
        query = request.GET if request.META.get("QUERY_STRING") else _NO_QUERY
        if self._nothing is not None and not query:
            return self._nothing
        values: dict[str, str | list[str]] = {}
        for name, given in query.lists():
            if name in self._lists:
                values[name] = given
            elif len(given) > 1:
                raise invalid(name, "is given more than once")
            elif name in self._times and not self._is_time(name, given[0]):
                raise invalid(name, _NO_TIME)  # Seconds would pass.
            else:
                values[name] = given[0]
        return _checked(
            lambda: msgspec.convert(values, self._kind, strict=False),
            self._kind,
            lambda: values,
            strict=False,
        )

    def _is_time(self, name: str, text: str) -> bool:
        if name in self._times_or_offsets and _OFFSET.fullmatch(text):
            return True
        return _TIME.match(text) is not None


def invalid(field: str, message: str) -> InvalidRequest:
    """An InvalidRequest that names its one field; none: it is the body as a whole."""
    detail = f"{field}: {message}." if field else f"{message}."
    return InvalidRequest(detail, field={field: message})


def checked_time(field: str, moment: datetime) -> datetime:
    """A body's moment, which can be reckoned with in any zone; taken as it is given, it is taken
    again as it is answered, in UTC.

    Raises:
        InvalidRequest: it is of the first or the last year that there is, here or in UTC.
    """
    if moment.year not in _YEARS or moment.astimezone(UTC).year not in _YEARS:
        raise invalid(field, _NO_TIME)
    return moment


def named(field: str, parse: Callable[[str], R], text: str) -> R:
    """Parse a name or an id; the error says which field it stood in.

    Raises:
        InvalidRequest: the text has another form.
    """
    try:
        return parse(text)
    except InvalidRequest as error:
        raise invalid(field, error.message.rstrip(".")) from error


def all_named(field: str, parse: Callable[[str], R], texts: Iterable[str]) -> list[R]:
    """Parse the items of a list field, as :func:`named`."""
    return [named(f"{field}[{index}]", parse, text) for index, text in enumerate(texts)]


def _checked(
    decode: Callable[[], R], kind: object, again: Callable[[], object], *, strict: bool = True
) -> R:
    """What ``decode`` gives; a refusal names each field that is wrong."""
    try:
        return _readable(decode)
    except msgspec.ValidationError as error:
        wrong = errors_of(error, kind, again, strict=strict)
        parts = (f"{field}: {problem}" if field else problem for field, problem in wrong.items())
        raise InvalidRequest(f"{'; '.join(parts)}.", field=wrong) from error


def _readable(decode: Callable[[], R]) -> R:
    try:
        return decode()
    except msgspec.ValidationError:
        raise
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise invalid("", f"The body cannot be read: {error}") from error
    except RecursionError as error:
        raise invalid("", "The body is nested too deep") from error


def _refuse_duplicates(body: bytes, decoded: object) -> None:
    """Refuse a JSON member that occurs twice in one object.

    Of such a member only the last is read. So what is written anew from what has been read lacks
    a name, and with it two quotation marks, which nothing else makes up for: texts have the same
    marks however they are written, unless in digits. A body with as many marks as that has each
    member once. Others are looked through member by member, which takes several times as long.
    """
    if b"\\" not in body or _MARK_IN_DIGITS not in body:
        marks = body.count(b'"')
        if _is_lean(decoded) and marks == _WRITTEN.encode(decoded).count(b'"'):
            return
        if marks == _WRITTEN.encode(_ANYTHING.decode(body)).count(b'"'):
            return
    json.loads(body, object_pairs_hook=_unique)


def _is_lean(decoded: object) -> bool:
    """Whether its members are written as they were read: none but those that were there."""
    return isinstance(decoded, msgspec.Struct) and decoded.__struct_config__.omit_defaults


def _unique(pairs: Sequence[tuple[str, object]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:60]!r} occurs twice in one object")

"""Decoding bodies and query strings into typed structs, strictly.

These are refused with ``InvalidRequest`` and the path of the field: an unknown field, a missing
one, a wrong type, a number out of range, a lone surrogate, NaN, a member that occurs twice
(parsers disagree on which one counts), and nesting that is too deep. Of MessagePack only the body's
own members are looked at, not those of its messages, which would take as long as their encoding.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec
from django.http import HttpRequest, QueryDict
from django.http.request import RawPostDataException
from rest_framework.exceptions import UnsupportedMediaType

from engine.model.errors import InvalidRequest, PayloadTooLarge
from txnconsole.api.field_errors import Members, Read, errors_of
from txnconsole.api.structs.fields import NO_TIME

JSON = "application/json"
MSGPACK = "application/msgpack"

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=msgspec.Struct)

_ANYTHING = msgspec.json.Decoder()
#: A refused body's members as they stand in it. MessagePack's names may be of any type.
_MEMBERS = dict[object, msgspec.Raw]
_WRITTEN = msgspec.json.Encoder()
#: How MessagePack's larger maps and arrays begin; a small map's first byte has its size.
_MAP16, _MAP32, _ARRAY32 = 0xDE, 0xDF, b"\xdd"
_PARTS = msgspec.msgpack.Decoder(list[msgspec.Raw])
#: The only way to write a quotation mark in JSON without the character itself.
_MARK_IN_DIGITS = b"\\u0022"
#: A time in a year from 2 to 9998: in any zone it is still in a year that Python has.
_TIME = re.compile(r"(?!000[01]|9999)\d{4}-\d\d-\d\d")
_OFFSET = re.compile(r"[0-9]+")
_NO_QUERY = QueryDict()
_NO_TEXT = "\N{REPLACEMENT CHARACTER}"
_YEARS = range(2, 9999)


class BodyDecoder(Generic[T]):
    """Decodes the bodies of one operation.

    Args:
        kind: the struct of a JSON body.
        packed: the struct of a MessagePack body; None when the operation takes JSON only.
        limit: the largest body, in bytes.
    """

    def __init__(self, kind: type[T], *, packed: type[Any] | None, limit: int) -> None:
        self._kind = kind
        self._json = msgspec.json.Decoder(kind)
        self._msgpack = None if packed is None else _PackedDecoder(packed)
        self._limit = limit

    def decode(self, request: HttpRequest) -> T:
        """Decode the request's body; an empty one counts as ``{}``.

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
            decode, kind = self._msgpack.decode, self._msgpack.kind
            packed: T = _checked(
                lambda: decode(body),
                kind,
                members=lambda: msgspec.msgpack.decode(body, type=_MEMBERS),
                read=lambda raw, type_: msgspec.msgpack.decode(raw, type=type_),
            )
            return packed
        if media_type != JSON:
            raise self._other_form(media_type)
        decoded = _checked(
            lambda: self._json.decode(body),
            self._kind,
            members=lambda: msgspec.json.decode(body, type=_MEMBERS),
            read=lambda raw, type_: msgspec.json.decode(raw, type=type_),
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
    """Decodes the query strings of one operation. Only list fields may be given more than once."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        # Or msgspec (0.22) would make it ready for ``convert`` with the first request, and another
        # one at that moment would end the process.
        msgspec.json.Decoder(kind)
        fields = msgspec.structs.fields(kind)
        self._names = {field.encode_name: field.name for field in fields}
        types = {field.encode_name: field.type for field in fields}
        self._lists = frozenset(name for name in types if get_origin(types[name]) is list)
        self._times = frozenset(name for name in types if "datetime" in str(types[name]))
        self._times_or_offsets = frozenset(
            name for name in self._times if "int" in str(types[name])
        )
        #: For an operation without parameters, its empty struct, which all requests share.
        self._nothing = None if types else kind()

    def decode(self, request: HttpRequest) -> S:
        """Decode the request's query string.

        Raises:
            InvalidRequest: a parameter is unknown, missing, malformed or given twice.
        """
        query_string: str = request.META.get("QUERY_STRING", "")
        query = request.GET if query_string else _NO_QUERY
        if self._nothing is not None and not query:
            return self._nothing
        values: dict[str, str | list[str]] = {}
        for name, given in query.lists():
            if any(_NO_TEXT in text for text in given):
                _refuse_other_encodings(query_string)
            if name in self._lists:
                values[name] = given
            elif len(given) > 1:
                raise invalid(name, "is given more than once")
            elif name in self._times and not self._is_time(name, given[0]):
                raise invalid(name, NO_TIME)  # msgspec would accept a number of seconds.
            else:
                values[name] = given[0]
        decoded = _checked(
            lambda: msgspec.convert(values, self._kind, strict=False),
            self._kind,
            members=lambda: values,
            read=lambda text, type_: msgspec.convert(text, type_, strict=False),
        )
        for name, text in values.items():
            _refuse_other_spelling(name, text, getattr(decoded, self._names[name]))
        return decoded

    def _is_time(self, name: str, text: str) -> bool:
        if name in self._times_or_offsets and _OFFSET.fullmatch(text):
            return True
        return _TIME.match(text) is not None


def _refuse_other_encodings(query_string: str) -> None:
    """Refuse a value that is not UTF-8: Django puts U+FFFD in the place of what it cannot read, and
    the answer would be about another text than the one that was given."""
    for name, text in parse_qsl(query_string, errors="surrogateescape"):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise invalid(name, "must be UTF-8") from error


def _refuse_other_spelling(name: str, text: str | list[str], value: object) -> None:
    """Refuse what msgspec takes of a text beyond what the contract has: ``1e1`` or ``10.0`` as a
    number, the latter rounded where it is large, and ``null`` as a parameter that is left out."""
    if value is None:
        raise invalid(name, "must have a value, or be left out")
    if type(value) is int and str(value) != text:
        raise invalid(name, "must be a whole number, written in digits alone")


def invalid(field: str, message: str) -> InvalidRequest:
    """An InvalidRequest about one field; ``""`` stands for the body as a whole."""
    detail = f"{field}: {message}." if field else f"{message}."
    return InvalidRequest(detail, field={field: message})


def check_time(field: str, moment: datetime) -> None:
    """Check that a moment in a body is in the years 2 to 9998, in its own zone and in UTC. So it
    can be converted to any zone, and a client may send back the UTC time that it was answered.

    Raises:
        InvalidRequest: it is not.
    """
    if moment.year not in _YEARS or moment.astimezone(UTC).year not in _YEARS:
        raise invalid(field, NO_TIME)


def named(field: str, parse: Callable[[str], R], text: str) -> R:
    """Parse a name or an id; the error names the field.

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


def _checked(decode: Callable[[], R], kind: object, *, members: Members, read: Read) -> R:
    """Run ``decode``; its error names every field that is wrong (txnconsole.api.field_errors)."""
    try:
        return _readable(decode)
    except msgspec.ValidationError as error:
        wrong = errors_of(error, kind, members, read)
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

    The fast check counts quotation marks. The decoder keeps only the last of two members of the
    same name. So when the decoded value is encoded again, a name is missing, and with it two
    quotation marks. Nothing can make up for these, since a text has the same number of marks
    however it is written, except as digits (``\\u0022``). A body with as many marks as its encoding
    therefore has every member once. Other bodies are parsed member by member, which takes several
    times as long.
    """
    if b"\\" not in body or _MARK_IN_DIGITS not in body:
        marks = body.count(b'"')
        if _is_lean(decoded) and marks == _WRITTEN.encode(decoded).count(b'"'):
            return
        if marks == _WRITTEN.encode(_ANYTHING.decode(body)).count(b'"'):
            return
    json.loads(body, object_pairs_hook=_unique)


class _PackedDecoder:
    """Decodes MessagePack bodies, and refuses one with a member that occurs twice.

    The header of a map tells how many members follow. When these are no more than the struct
    requires, and those that do not have their default, none occurs twice. Only of a body that
    writes defaults out are the names read.
    """

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self._decoder = msgspec.msgpack.Decoder(kind)
        fields = msgspec.structs.fields(kind)
        self._required = sum(field.required for field in fields)
        self._optional = [(field.name, field.default) for field in fields if not field.required]
        if any(default is msgspec.NODEFAULT for _, default in self._optional):
            raise TypeError(f"{kind.__name__} has a default that is made anew each time")

    def decode(self, body: bytes) -> Any:
        decoded = self._decoder.decode(body)
        declared, start = _members_declared(body)
        given = self._required
        for name, default in self._optional:
            if getattr(decoded, name) is not default:
                given += 1
        if declared > given:
            _unique(_pairs(declared, body[start:]))
        return decoded


def _members_declared(packed_map: bytes) -> tuple[int, int]:
    """How many members the header of a MessagePack map declares, and where the first begins."""
    first = packed_map[0]
    width = {_MAP16: 2, _MAP32: 4}.get(first, 0)
    return int.from_bytes(packed_map[1 : 1 + width]) if width else first & 0x0F, 1 + width


def _pairs(count: int, members: bytes) -> list[tuple[str, object]]:
    """The members of a MessagePack map, read as an array of names and values."""
    parts = _PARTS.decode(_ARRAY32 + (2 * count).to_bytes(4) + members)
    return [(msgspec.msgpack.decode(name, type=str), None) for name in parts[::2]]


def _is_lean(decoded: object) -> bool:
    """Whether encoding a decoded struct writes only members that were in the body, no defaults."""
    return isinstance(decoded, msgspec.Struct) and decoded.__struct_config__.omit_defaults


def _unique(pairs: Sequence[tuple[str, object]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, times in counts.items() if times > 1)
        raise ValueError(f"{twice[:60]!r} occurs twice in one object")

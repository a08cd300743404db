"""What is wrong with each field of a body or a query string.

msgspec stops at the first field that it refuses, but the contract names all of them. So a refused
body is read again, field by field; within a field the first wrong place is named. No field is made
into plain lists and maps for it: millions of them would take half a minute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

import msgspec

from txnconsole.api.choices import choices, field_names
from txnconsole.api.structs.fields import IN_WORDS, NO_TIME

_WORDS = {repr(pattern): words for pattern, words in IN_WORDS.items()}
#: The end of msgspec's messages: the place in the body, or the name of a member, that is wrong. A
#: place is made of our fields' names; what stands before it may be a caller's own name of any form
#: and length, so that no search may go through it anew from each of its characters.
_WHERE = re.compile(r" - at (`key` in )?`\$\.?([^`\s]*)`\Z")
_NAME = "a name in it: "
_PATTERN = re.compile(rf"({_NAME})?Expected `str` matching regex (.*)")
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)
_OTHER_TIME = "Invalid RFC3339 encoded datetime"
_MISSING = re.compile(r"missing required field `(.*?)`")
_NOT_KNOWN = "is unknown"
_LONGEST_TOLD = 100
_MOST_TOLD = 20

Errors = dict[str, str]
Members = Callable[[], Mapping[Any, object]]
Read = Callable[[Any, Any], object]


def errors_of(error: msgspec.ValidationError, kind: Any, members: Members, read: Read) -> Errors:
    """What is wrong, by field; ``""`` stands for the body as a whole.

    Args:
        members: gives the members of what was refused, by name.
        read: reads one of them as a type, or raises what msgspec raises.
    """
    first = dict([_located(str(error), kind)])
    if not isinstance(kind, type(msgspec.Struct)):
        return first
    try:
        found = first | dict(islice(_each_field(kind, members(), read), _MOST_TOLD))
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError):
        return first  # Nothing after the first wrong place can be read.
    return dict(list(found.items())[:_MOST_TOLD])


def _each_field(kind: Any, members: Mapping[Any, object], read: Read) -> Iterator[tuple[str, str]]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, field in fields.items():
        if name not in members:
            if field.required:
                yield name, "is missing"
            continue
        try:
            read(members[name], field.type)
        except msgspec.ValidationError as error:
            place, problem = _place(str(error))
            path = f"{name}{'.' if place and not place.startswith('[') else ''}{place}"
            yield _told(path, problem, kind)
    for name in members:
        known = name in fields or not isinstance(name, str)  # MessagePack's may be of any type.
        if not known and kind.__struct_config__.forbid_unknown_fields:
            yield _told(_shortened(name), _NOT_KNOWN, kind)


def _located(text: str, kind: object) -> tuple[str, str]:
    return _told(*_place(text), kind)


def _place(text: str) -> tuple[str, str]:
    """Split one of msgspec's messages into the place and what is wrong there."""
    found = _WHERE.search(text)
    path = "" if found is None else found[2]
    message = text if found is None else text[: found.start()]
    if found is not None and found[1]:
        return path, f"{_NAME}{message}"
    for pattern, problem in ((_UNKNOWN, _NOT_KNOWN), (_MISSING, "is missing")):
        named = pattern.search(message)
        if named is not None:
            return ".".join(part for part in (path, _shortened(named[1])) if part), problem
    return path, message


def _told(path: str, problem: str, kind: object) -> tuple[str, str]:
    """A field with what is wrong, made readable: patterns in words, and what is possible in place
    of an unknown name, or of a value that is none of certain ones."""
    pattern = _PATTERN.fullmatch(problem)
    if pattern is not None and pattern[2] in _WORDS:
        return path, f"{pattern[1] or ''}{_WORDS[pattern[2]]}"
    if problem == _OTHER_TIME:
        return path, NO_TIME
    if problem == _NOT_KNOWN:
        place, _, name = path.rpartition(".")
        return path, f"{problem}{_instead(name, field_names(kind, place))}"
    possible = choices(kind, path)
    if possible and problem != "is missing":
        return path, f"{_shortened(problem)}; it takes {', '.join(possible)}"
    return path, problem


def _instead(name: str, known: Sequence[str]) -> str:
    """What may have been meant by a name that is not known."""
    if near := get_close_matches(name, known, n=1):
        return f"; the nearest is {near[0]}"
    return f"; there are {', '.join(known)}" if known else ""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}…"

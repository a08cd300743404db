"""What is possible at a place of a body or a query string, for error messages."""

from __future__ import annotations

import re

from msgspec import inspect

#: A step of msgspec's paths: a field, or an item of what holds several.
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(?:\d+|\.\.\.)\]")


def choices(kind: object, path: str) -> tuple[str, ...]:
    """The values that ``kind`` accepts at a path such as ``messages[0].payload_encoding``. None of
    them when the place is not limited to certain values."""
    found = [value for place in _at(kind, path) for value in _values(place)]
    return tuple(map(str, found))


def field_names(kind: object, path: str) -> tuple[str, ...]:
    """The names of the fields that ``kind`` has at a path."""
    structs = [place for place in _at(kind, path) if isinstance(place, inspect.StructType)]
    return tuple(field.encode_name for struct in structs for field in struct.fields)


def _at(kind: object, path: str) -> list[inspect.Type]:
    places = _parts(inspect.type_info(kind))
    for step in _STEP.finditer(path):
        places = [part for place in places for part in _within(place, step[1])]
    return places


def _within(place: inspect.Type, name: str | None) -> list[inspect.Type]:
    if isinstance(place, inspect.StructType):
        return [
            part
            for field in place.fields
            if field.encode_name == name
            for part in _parts(field.type)
        ]
    if isinstance(place, inspect.DictType):
        return _parts(place.value_type)
    if name is None and isinstance(place, inspect.CollectionType):
        return _parts(place.item_type)
    return []


def _parts(place: inspect.Type) -> list[inspect.Type]:
    """The alternatives of a type, without msgspec's metadata around them."""
    if isinstance(place, inspect.Metadata):
        return _parts(place.type)
    if isinstance(place, inspect.UnionType):
        return [part for each in place.types for part in _parts(each)]
    return [place]


def _values(place: inspect.Type) -> list[object]:
    if isinstance(place, inspect.LiteralType):
        return list(place.values)
    if isinstance(place, inspect.EnumType):
        return [member.value for member in place.cls]
    return []

"""Masking: a pure decision from the rules and a message to what may be shown of it.

A rule is for the topics that match its pattern, and for one part of their messages: the payload, a
field of a JSON payload, the key, or a property. A payload to which a field's rule cannot be
applied, because it is not a JSON object or array, is hidden as a whole, so that nothing is shown
because of its form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from engine.model.message import StoredMessage

#: In a field's path, this stands for any number of levels.
ANYWHERE = "**"
_HIDDEN = "***"
#: Only texts at least so long may show their end; of a shorter one it would be most of the text.
_TAIL, _SHORTEST = 4, 9


class Part(StrEnum):
    """The part of a message that a rule masks."""

    PAYLOAD = "payload"
    FIELD = "field"
    KEY = "key"
    PROPERTY = "property"


class Effect(StrEnum):
    """What is shown instead."""

    REMOVE = "remove"
    REPLACE = "replace"
    #: All but the last four characters become asterisks.
    TAIL = "tail"


@dataclass(frozen=True, slots=True)
class Rule:
    """``name`` is a property's name or a field's path (``card.number``, ``**.iban``); both may have
    ``*`` and ``?`` in them. A list on the path stands for each of its items."""

    part: Part
    name: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Shown:
    """What may be shown of a message. ``payload``: whether its payload (or what is left of it) may
    be; ``masked``: whether some of the payload is missing."""

    message: StoredMessage
    payload: bool
    masked: bool


def apply(message: StoredMessage, rules: Sequence[Rule], *, payload: bool) -> Shown:
    """Mask a message by the rules of its topic; ``payload``: whether it is shown at all."""
    properties = message.properties
    for rule in rules:
        if rule.part is Part.PROPERTY:
            properties = dict(_properties(properties, rule))
    fields = [rule for rule in rules if rule.part is Part.FIELD]
    left: bytes | None = message.payload
    if not payload or any(rule.part is Part.PAYLOAD for rule in rules):
        left = None
    elif fields and message.payload:
        left = _payload(message.payload, fields)
    return Shown(
        msgspec.structs.replace(
            message, key=key_shown(message.key, rules), properties=properties, payload=left or b""
        ),
        payload=left is not None,
        masked=left != message.payload,
    )


def key_shown(key: str | None, rules: Sequence[Rule]) -> str | None:
    """A key as the rules of its topic allow it."""
    for rule in rules:
        if rule.part is Part.KEY and key is not None:
            key = _replaced(key, rule.effect)
    return key


def _properties(properties: dict[str, str], rule: Rule) -> Iterable[tuple[str, str]]:
    for name, value in properties.items():
        shown = _replaced(value, rule.effect) if fnmatchcase(name, rule.name) else value
        if shown is not None:
            yield name, shown


def _replaced(text: str, effect: Effect) -> str | None:
    if effect is Effect.REMOVE:
        return None
    if effect is Effect.TAIL and len(text) >= _SHORTEST:
        return "*" * (len(text) - _TAIL) + text[-_TAIL:]
    return _HIDDEN


def _payload(payload: bytes, rules: Sequence[Rule]) -> bytes | None:
    """The payload as the rules allow it; None: it has no fields, or cannot be parsed."""
    try:
        value = json.loads(payload)
        if not isinstance(value, dict | list):
            return None
        for rule in rules:
            value = _masked(value, rule.name.split("."), rule.effect)
        return json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None


def _masked(value: Any, path: Sequence[str], effect: Effect) -> Any:
    if isinstance(value, list):
        return [_masked(each, path, effect) for each in value]
    if not isinstance(value, dict):
        return value
    head, rest = path[0], path[1:]
    if head == ANYWHERE and rest:
        here = _masked(value, rest, effect)
        return {name: _masked(inner, path, effect) for name, inner in here.items()}
    shown = {}
    for name, inner in value.items():
        if not fnmatchcase(name, head):
            shown[name] = inner
        elif rest:
            shown[name] = _masked(inner, rest, effect)
        elif effect is not Effect.REMOVE:
            whole = isinstance(inner, dict | list)
            shown[name] = _HIDDEN if whole else _replaced(str(inner), effect)
    return shown

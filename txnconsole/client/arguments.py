"""Checks of a program's arguments, made before anything is sent. No IO.

A wrong type is a TypeError, an impossible value a ValueError; both name the argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite, isnan

#: The contract's longest timeout: what fits into 64 bits as microseconds.
_LONGEST_MS = (2**63 - 1) // 1000
#: Limits of the contract's schema. One message that breaks them would get its whole batch refused.
_KEY_LENGTH = 1024
_PROPERTIES = 64
_FIRST_MOMENT = datetime(2, 1, 1, tzinfo=UTC)
_AFTER_LAST = datetime(9999, 1, 1, tzinfo=UTC)


def wrong_type(name: str, wanted: str, given: object) -> TypeError:
    """The error for an argument that is not of the ``wanted`` type."""
    return TypeError(f"{name} is to be {wanted}, not {type(given).__name__}.")


def text(name: str, value: object) -> None:
    """Check a text.

    Raises:
        TypeError: it is not a str.
        ValueError: it cannot be written as UTF-8, or holds NUL, which no server keeps.
    """
    if not isinstance(value, str):
        raise wrong_type(name, "a str", value)
    if "\0" in value:
        raise ValueError(f"{name} must not hold NUL.")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} holds half of a character: {error}.") from error


def name(argument: str, value: object) -> None:
    """Check a name that is given instead of a unique one.

    Raises:
        TypeError, ValueError: as :func:`text`, or it is empty.
    """
    text(argument, value)
    if not value:
        raise ValueError(f"{argument} is to be a name, or None for one that nobody else has.")


def payload(value: object) -> bytes:
    """A payload as bytes that do not change with the buffer that they came from.

    Raises:
        TypeError: it is neither bytes nor a buffer of bytes.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise wrong_type("payload", "bytes", value)


def key(value: object) -> None:
    """Check a message's key.

    Raises:
        TypeError, ValueError: as :func:`text`, or it is too long.
    """
    text("key", value)
    if isinstance(value, str) and len(value) > _KEY_LENGTH:
        raise ValueError(f"key is to have {_KEY_LENGTH} characters at most, not {len(value)}.")


def properties(value: object) -> dict[str, str]:
    """A copy of a message's or transaction's properties.

    Raises:
        TypeError, ValueError: as :func:`text`, for a name or a value, or there are too many.
    """
    if not isinstance(value, dict | Mapping):
        raise wrong_type("properties", "a mapping of str to str", value)
    if len(value) > _PROPERTIES:
        raise ValueError(f"properties are to be {_PROPERTIES} at most, not {len(value)}.")
    for name, content in value.items():
        if not (_is_plain(name) and _is_plain(content)):
            text("the name of a property in properties", name)
            text(f"properties[{name!r}]", content)
    return dict(value)


def _is_plain(value: object) -> bool:
    """Whether :func:`text` has nothing to find; true of most texts, and quick."""
    return type(value) is str and value.isascii() and "\0" not in value


def time(name: str, value: object) -> None:
    """Check a time.

    Raises:
        TypeError: it is not a datetime.
        ValueError: it has no time zone, or a year that no server accepts.
    """
    if not isinstance(value, datetime):
        raise wrong_type(name, "a datetime with a time zone", value)
    if value.utcoffset() is None:
        raise ValueError(f"{name}: the time {value.isoformat()} needs a time zone.")
    if not _FIRST_MOMENT <= value < _AFTER_LAST:
        raise ValueError(f"{name}: the time {value.isoformat()} is not of the years 2 to 9998.")


def whole(name: str, value: object, *, least: int) -> None:
    """Check a whole number.

    Raises:
        TypeError: it is not an int.
        ValueError: it is below ``least``.
    """
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{name} is to be a whole number, not {value}.")
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(name, "an int", value)
    if value < least:
        raise ValueError(f"{name} is to be at least {least}, not {value}.")


def seconds(name: str, value: object) -> None:
    """Check a longest time to wait. A negative one means not to wait, infinity to wait for ever.

    Raises:
        TypeError: it is not a number.
        ValueError: it is NaN.
    """
    if not isinstance(value, int | float):
        raise wrong_type(name, "a number of seconds", value)
    if isnan(value):
        raise ValueError(f"{name} is to be a number of seconds, not {value}.")


def delay(name: str, value: object) -> None:
    """Check a length of time; infinity is for ever.

    Raises:
        TypeError, ValueError: as :func:`seconds`, or it is below 0.
    """
    seconds(name, value)
    if isinstance(value, int | float) and value < 0:
        raise ValueError(f"{name} is to be at least 0 seconds, not {value}.")


def milliseconds(name: str, value: float) -> int:
    """A timeout, given in seconds, in the contract's milliseconds.

    Raises:
        TypeError: it is not a number.
        ValueError: it is below a millisecond, or longer than the contract allows.
    """
    seconds(name, value)
    if not 0.0005 < value <= _LONGEST_MS / 1000:
        raise ValueError(
            f"{name} is to be between 0.001 and {_LONGEST_MS // 1000} seconds, not {value}."
        )
    return round(value * 1000)

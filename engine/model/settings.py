"""What somebody asks of a thing that exists with other settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_TEXTS = {None: "none", True: "true", False: "false"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting of what exists, and the value that was asked for instead."""

    setting: str
    has: object
    wanted: object

    def __str__(self) -> str:
        return f"{self.setting} is {_text(self.has)} there, not {_text(self.wanted)}"

    def as_data(self) -> dict[str, object]:
        """As the REST contract gives it."""
        return {"setting": self.setting, "has": _json(self.has), "wanted": _json(self.wanted)}


def differences(has: object, wanted: object, settings: Iterable[str]) -> tuple[Difference, ...]:
    """Where two records of settings differ in those that are named, in their order."""
    pairs = ((name, getattr(has, name), getattr(wanted, name)) for name in settings)
    return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2])


def conflict(what: object, found: Iterable[Difference]) -> tuple[str, list[dict[str, object]]]:
    """The message of an error about settings that differ, and its ``differences``."""
    found = tuple(found)
    told = "; ".join(map(str, found))
    return f"{what} exists with other settings: {told}.", [each.as_data() for each in found]


def _text(value: object) -> str:
    return _TEXTS[value] if value is None or isinstance(value, bool) else str(value)


def _json(value: object) -> object:
    return value if value is None or isinstance(value, bool | int) else str(value)

"""The settings that somebody asks for: checked, and compared with those of a thing that exists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.model.errors import InvalidRequest

_TEXTS = {None: "none", True: "true", False: "false"}


def check_bounds(settings: object, bounds: Mapping[str, tuple[int, int]]) -> None:
    """Refuse settings outside their bounds, the least and the greatest of each; None is allowed.

    Raises:
        InvalidRequest: names the first such setting.
    """
    for name, (least, most) in bounds.items():
        value = getattr(settings, name)
        if value is not None and not least <= value <= most:
            raise InvalidRequest(f"{name} must be between {least} and {most}.", field=name)


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that differs: its value in the thing that exists, and the one that was asked
    for."""

    setting: str
    has: object
    wanted: object

    def __str__(self) -> str:
        return f"{self.setting} is {_text(self.has)} there, not {_text(self.wanted)}"

    def as_data(self) -> dict[str, object]:
        """As the REST contract gives it."""
        return {"setting": self.setting, "has": _json(self.has), "wanted": _json(self.wanted)}


def differences(has: object, wanted: object, settings: Iterable[str]) -> tuple[Difference, ...]:
    """The differences of two records of settings, in those settings that are named."""
    pairs = ((name, getattr(has, name), getattr(wanted, name)) for name in settings)
    return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2])


def conflict(what: object, found: Iterable[Difference]) -> tuple[str, list[dict[str, object]]]:
    """The message of an error about differing settings, and its ``differences`` for the REST
    contract."""
    found = tuple(found)
    texts = "; ".join(map(str, found))
    return f"{what} exists with other settings: {texts}.", [each.as_data() for each in found]


def _text(value: object) -> str:
    return _TEXTS[value] if value is None or isinstance(value, bool) else str(value)


def _json(value: object) -> object:
    return value if value is None or isinstance(value, bool | int) else str(value)

"""The filter of a list by a part of names, which its address has as ``q``."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest

from txnconsole.console.finding import kind_and_name

_LONGEST = 400


@dataclass(frozen=True, slots=True)
class NameFilter:
    """A part of a name as a reader has typed it, and in the form in which statements look for it;
    both are empty where all names are wanted."""

    text: str
    part: str

    @classmethod
    def of(cls, request: HttpRequest) -> NameFilter:
        """Read an address. A name may be written with its kind and its scheme before it, as it is
        elsewhere; of these only a coordinator's kind is part of its name."""
        text = request.GET.get("q", "").strip()[:_LONGEST]
        kind, name = kind_and_name(text)
        return cls(text, (f"coordinator:{name}" if kind == "coordinator" else name).lower())
